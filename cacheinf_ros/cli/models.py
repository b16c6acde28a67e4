"""``cacheinf models``: which models there are, and what the engine makes of one."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.options import Size, Weights
from cacheinf_ros.config import parse_size

models = typer.Typer(help="Built-in models, and how the engine understands any model.", no_args_is_help=True)


@models.command("list")
def list_models() -> None:
    """Models that ship with the package, and how to name any other."""
    from cacheinf_ros.graph import load_model, model_names

    table = Table("name", "input", "classes", title="built-in models")
    for name in model_names():
        card = load_model(name).card
        table.add_row(name, "x".join(map(str, card.input_size or ())), ", ".join(card.labels))
    console = Console()
    console.print(table)
    console.print(
        "Any other: torchvision:NAME, package.module:factory, file.py:factory, a .pt2 or .onnx file, or a card .yaml."
    )


@models.command()
def inspect(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    weights: Weights = None,
    size: Size = None,
) -> None:
    """Print which operators are computed sparsely, which globally, and which nobody has taught the engine."""
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.graph.ir import Conv, Global

    loaded = load_model(model, weights=weights, input_size=parse_size(size))
    graph = loaded.graph
    kinds: Counter[tuple[str, str]] = Counter()
    flops: Counter[tuple[str, str]] = Counter()
    for operator in graph.operators:
        is_global = isinstance(operator, Global)
        name = operator.target if isinstance(operator, Global) else type(operator).__name__.lower()
        kind = ("global" if operator.known else "unknown") if isinstance(operator, Global) else "sparse"
        kinds[kind, name] += 1
        if isinstance(operator, Conv) and not is_global:
            flops[kind, name] += operator.flops_per_pixel * graph.tensors[operator.output].pixels
    table = Table("execution", "operator", "count", "GFLOP", title=f"{loaded.name}, input {loaded.input_size}")
    for (kind, name), count in sorted(kinds.items()):
        work = flops[kind, name]
        table.add_row(kind, name, str(count), f"{work / 1e9:.2f}" if work else "")
    console = Console()
    console.print(table)
    cached = sum(s.pixels * s.channels * 4 for s in graph.tensors.values() if s.is_map)
    console.print(f"outputs: {', '.join(f'{n} {graph.tensors[t].shape}' for n, t in graph.outputs)}")
    console.print(f"feature maps: {cached / 1e6:.1f} MB, kept between frames")
    if graph.unknown:
        console.print(f"[yellow]computed densely on every frame:[/] {', '.join(graph.unknown)}")
