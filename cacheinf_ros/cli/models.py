# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf models``: lists models, and shows how the engine understands one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.options import Size, Weights
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine.frame_placement import picture_size
from cacheinf_ros.graph import TRUSTED, VALUE_FIELDS, Graph, Model, ModelCard, WeightsOrigin, is_grey
from cacheinf_ros.graph.ir import Global, GlobalMean, Operator
from cacheinf_ros.graph.receptive_field import receptive_field

_WEIGHTS = {
    WeightsOrigin.FILE: "from a file",
    WeightsOrigin.BUILT_IN: "trained, built into the package",
    WeightsOrigin.RANDOM: "[yellow]random[/]: answers mean nothing, speed is real. Give --weights FILE",
    WeightsOrigin.UNKNOWN: "as the factory made them, trained or not",
}

_NETWORK_FILES = {".onnx", ".pt2"}
"""What a card may say of the values of images; torchvision's networks want the default."""

_LABELS = 5
"""The number of a model's labels that are printed."""

models = typer.Typer(help="Built-in models, and how the engine understands any model.", no_args_is_help=True)


@models.command("list")
def list_models() -> None:
    """List models that ship with the package, and how to name any other."""
    from cacheinf_ros.graph import load_model, model_names

    table = Table("name", "input", "classes", title="built-in models")
    for name in model_names():
        card = load_model(name).card
        table.add_row(name, "x".join(map(str, card.input_size or ())), ", ".join(card.labels))
    console = Console()
    console.print(table)
    console.print(
        "Any other: an .onnx file, trusted:FILE.pt2, a card .yaml, package.module:factory, file.py:factory, or "
        "torchvision:NAME with --weights FILE."
    )


@models.command()
def inspect(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    weights: Weights = None,
    size: Size = None,
    every: Annotated[bool, typer.Option("--all", help="List every operator, in the order of execution.")] = False,
) -> None:
    """Print what a model is taken for, and which operators are computed sparsely, globally, or are unknown."""
    from cacheinf_ros.graph import load_model

    loaded = load_model(model, weights=weights, input_size=parse_size(size))
    table = _every_operator(loaded.graph) if every else _counts(loaded.graph)
    table.title = escape(f"{loaded.name}, input {_by(loaded.input_size)}")
    console = Console()
    console.print(table)
    console.print(f"weights: {_WEIGHTS[loaded.weights_origin]}", highlight=False)
    for line in chain(_reading(loaded), _remarks(loaded.graph)):
        console.print(line, highlight=False)


class Execution(Enum):
    """The way in which the engine computes an operator."""

    SPARSE = "sparse"
    """The operator is computed for the pixels that changed."""
    GLOBAL = "global"
    """The operator is computed completely whenever anything changed.

    It depends on the whole image, or its output is one pixel.
    """
    UNKNOWN = "unknown"
    """The operator is computed completely, because the engine does not know it."""


def execution(operator: Operator, graph: Graph) -> Execution:
    """Return how the engine computes an operator."""
    if isinstance(operator, Global):
        return Execution.GLOBAL if operator.known else Execution.UNKNOWN
    is_pixel = graph.tensors[operator.output].pixels == 1
    return Execution.GLOBAL if is_pixel or isinstance(operator, GlobalMean) else Execution.SPARSE


def _counts(graph: Graph) -> Table:
    counts: Counter[tuple[str, str]] = Counter()
    flops: Counter[tuple[str, str]] = Counter()
    for operator in graph.operators:
        key = execution(operator, graph).value, _kind(operator)
        counts[key] += 1
        flops[key] += graph.flops(operator)
    table = Table("execution", "operator", "count", "GFLOP", "share of FLOPs")
    for key in sorted(counts, key=lambda key: ([e.value for e in Execution].index(key[0]), key[1])):
        work = flops[key]
        share = f"{work / flops.total():.1%}" if work else ""
        table.add_row(*key, str(counts[key]), f"{work / 1e9:.3g}" if work else "", share)
    return table


def _every_operator(graph: Graph) -> Table:
    table = Table("execution", "operator", "name", "output", "GFLOP")
    for operator in graph.operators:
        work = graph.flops(operator)
        table.add_row(
            execution(operator, graph).value,
            _kind(operator),
            escape(operator.name),
            _by(graph.tensors[operator.output].shape),
            f"{work / 1e9:.3g}" if work else "",
        )
    return table


def _reading(model: Model) -> Iterator[str]:
    """Yield what the model is taken for: how an image becomes its input, and its outputs an answer."""
    from cacheinf_ros.engine.decisions import judged_as

    card = model.card
    by = "" if card.model_fields_set & VALUE_FIELDS or not _is_file(card) else ", by default: the file does not say"
    shown = f" for {card.pictures} pictures side by side" if card.pictures > 1 else ""
    yield f"image: {card.resize} to {_by(model.input_size)}{shown}, {card.channel_order}, {_normalisation(card)}{by}"
    outputs = _outputs(model)
    yield from _answer(card, outputs)
    yield f"in mode bounded judged as {judged_as(card, outputs).value}"


def _is_file(card: ModelCard) -> bool:
    return Path(card.factory.removeprefix(TRUSTED)).suffix.lower() in _NETWORK_FILES


def _outputs(model: Model) -> dict[str, NDArray[Any]]:
    """Return the outputs for some picture: whether they are whole numbers, or probabilities, no shape tells."""
    import torch

    from cacheinf_ros.engine import Preprocessor
    from cacheinf_ros.graph import DenseGraph

    picture = np.random.default_rng(0).integers(0, 256, (*model.input_size, 3), dtype=np.uint8)
    with torch.inference_mode():
        found = DenseGraph(model.graph)(torch.from_numpy(Preprocessor(model.card).input(picture)))
    return {name: value.numpy() for name, value in found.items()}


def _answer(card: ModelCard, outputs: dict[str, NDArray[Any]]) -> Iterator[str]:
    """Say how the outputs are read; raises :class:`CacheinfError` if they cannot be read as the card says."""
    from cacheinf_ros.engine.decoders import class_count, decode, guessed_decoder
    from cacheinf_ros.graph.decoder_configs import Raw

    decoder = card.decoder or guessed_decoder(outputs, card.labels)
    if decoder is None:
        yield (
            "[yellow]answer: none that is known.[/] Results carry the outputs as they are; a model card with a decoder "
            "says what they mean (docs/models.md)"
        )
        return
    if isinstance(decoder, Raw):
        yield "answer: the outputs as they are"
        return
    assert card.input_size is not None
    decode(outputs, card, card.input_size)  # of a frame of that size
    by = "" if card.decoder else ", by the shape of the output; a model card says it for certain"
    names = escape(", ".join(card.labels[:_LABELS])) + (", ..." if len(card.labels) > _LABELS else "")
    yield f"answer: read as {decoder.kind}{by}" + (f"; {len(card.labels)} labels: {names}" if names else "")
    count = class_count(outputs, decoder, picture_size(card))
    if card.labels and count is not None and len(card.labels) < count:
        yield (
            f"[yellow]labels:[/] the outputs have {count} classes, and the card names {len(card.labels)} of them; the "
            "others are called by their numbers"
        )


def _normalisation(card: ModelCard) -> str:
    mean, std = (values[:1] if is_grey(card) else values for values in (card.mean, card.std))
    return f"(value * {card.scale:.4g} - {_values(mean)}) / {_values(std)}"


def _values(values: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"


def _remarks(graph: Graph) -> Iterator[str]:
    image = graph.tensors[graph.input].size
    for name, tensor in graph.outputs:
        field = receptive_field(graph, tensor)
        reach = "the whole image" if field == image else f"{_by(field)} pixels of the image"
        yield f"output {escape(name)} {_by(graph.tensors[tensor].shape)}: a pixel depends on {reach}"
    cached = sum(spec.pixels * spec.channels * 4 for spec in graph.tensors.values() if spec.is_map)
    yield f"feature maps kept between frames: at most {cached / 1e6:.1f} MB"
    if graph.unknown:
        yield (
            f"[yellow]unknown to the engine:[/] {escape(', '.join(graph.unknown))}. These and all that depends on them "
            "are computed completely on every frame: slower, never wrong."
        )


def _kind(operator: Operator) -> str:
    return operator.target if isinstance(operator, Global) else type(operator).__name__.lower()


def _by(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))
