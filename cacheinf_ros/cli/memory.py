"""``cacheinf memory``: where a model's intermediate tensors would lie in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.options import Size, Weights
from cacheinf_ros.config import parse_size
from cacheinf_ros.memory import MIB, Placement, TensorRecord

_LABELLED = 0.02  # of the picture's area: smaller tensors have no room for a name


def memory(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    weights: Weights = None,
    size: Size = None,
    out: Annotated[Path | None, typer.Option(help="Draw the plan: time across, address up.")] = None,
    time_limit_s: Annotated[
        float, typer.Option(min=0, help="How long to search for an arena smaller than the best greedy one.")
    ] = 10.0,
) -> None:
    """Plan the memory of a model's intermediate tensors, in dense execution without a cache."""
    from cacheinf_ros.engine.lifetimes import intermediate_tensors
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.memory import OFFSETS, SHARED_OBJECTS, least_for_offsets, least_for_shared_objects
    from cacheinf_ros.memory.optimal import optimal

    loaded = load_model(model, weights=weights, input_size=parse_size(size))
    records = intermediate_tensors(loaded.graph)
    best = optimal(records, time_limit_s=time_limit_s)
    table = Table("strategy", "shared objects, MiB", "one arena, MiB", title=f"{loaded.name}, {len(records)} tensors")
    for name in dict.fromkeys((*OFFSETS, *SHARED_OBJECTS)):
        sizes = (f"{kind[name](records).size / MIB:.3f}" if name in kind else "" for kind in (SHARED_OBJECTS, OFFSETS))
        table.add_row(name, *sizes)
    table.add_row("optimal" if best.is_proven else "best found", "", f"{best.placement.size / MIB:.3f}")
    bounds = least_for_shared_objects(records), least_for_offsets(records)
    table.add_row("lower bound", *(f"{bound / MIB:.3f}" for bound in bounds))
    Console().print(table)
    if out is not None:
        draw_plan(records, best.placement, out, title=loaded.name)
        typer.echo(f"wrote {out}")


def draw_plan(records: Sequence[TensorRecord], placement: Placement, path: Path, *, title: str) -> None:
    """A rectangle for each tensor: operators across, addresses in MiB up."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    axes: Any = figure.subplots()
    end = max((record.last for record in records), default=0) + 1
    for index, (record, offset) in enumerate(zip(records, placement.offsets, strict=True)):
        life = record.last + 1 - record.first
        axes.bar(
            record.first,
            record.size / MIB,
            life,
            offset / MIB,
            align="edge",
            color=f"C{index % 10}",
            edgecolor="white",
        )
        if life * record.size >= _LABELLED * end * placement.size:
            middle = record.first + life / 2, (offset + record.size / 2) / MIB
            axes.text(*middle, record.name, ha="center", va="center", fontsize="x-small")
    axes.set(title=f"{title}: {placement.size / MIB:.2f} MiB", xlabel="operator", ylabel="MiB")
    axes.set(xlim=(0, end), ylim=(0, placement.size / MIB or 1))
    figure.savefig(path, dpi=110)


def print_memory(report: dict[str, Any]) -> None:
    """Tables of ``cacheinf bench memory``."""
    console = Console()
    for kind in ("shared_objects", "offsets"):
        networks = report["placement"]
        table = Table("strategy", *networks, title=f"{kind.replace('_', ' ')}, MiB")
        for strategy in next(iter(networks.values()))[kind]:
            table.add_row(strategy, *(f"{network[kind][strategy]:.3f}" for network in networks.values()))
        table.add_row("lower bound", *(f"{network['bounds'][kind]:.3f}" for network in networks.values()))
        console.print(table)
    if "minimalloc" in report:
        instances = report["minimalloc"]
        strategies = list(next(iter(instances.values())))
        table = Table("problem", *strategies, title="bytes (seconds); what fits is marked *")
        for name, found in instances.items():
            cells = (f"{s['bytes']}{'*' if s['fits'] else ''} ({s['seconds']:.2f})" for s in found.values())
            table.add_row(name, *cells)
        console.print(table)
