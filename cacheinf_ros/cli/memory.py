# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf memory``: plans how a model's intermediate tensors share one arena."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.options import Size, Threads, Weights, described
from cacheinf_ros.cli.output_files import checked_picture, writing
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import Cache, EngineConfig, Precision
from cacheinf_ros.memory import MIB, Placement, TensorRecord

_DEFAULTS = EngineConfig()
_LABELLED = 0.02  # share of the picture's area below which a tensor has no room for a name


def memory(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    weights: Weights = None,
    size: Size = None,
    cache_budget_mb: Annotated[
        float,
        typer.Option(
            min=-1,
            help="Memory for feature maps that are kept between frames, 10**6 bytes. 0: none is kept; -1: as few as "
            "cost 10 % more time.",
        ),
    ] = 0.0,
    threads: Threads = _DEFAULTS.threads,
    device: Annotated[str, described(EngineConfig, "device")] = _DEFAULTS.device,
    precision: Annotated[Precision, described(EngineConfig, "precision")] = _DEFAULTS.precision,
    out: Annotated[
        Path | None, typer.Option(help="Draw the plan: time across, address up.", callback=checked_picture)
    ] = None,
    time_limit_s: Annotated[
        float, typer.Option(min=0, help="How long to search for an arena smaller than the best greedy one.")
    ] = 10.0,
) -> None:
    """Plan the memory of the feature maps that live within a frame: without a cache, or with merged caches.

    A device is used only with a budget, which needs to know what operators cost there. With precision bfloat16 a value
    takes two bytes, with int8 one; that needs scales, see `cacheinf quantise`.

    Example: cacheinf memory torchvision:resnet50 --size 480x640 --cache-budget-mb 100 --out plan.png
    """
    from cacheinf_ros.engine import (
        Caching,
        chosen_caching,
        droppable,
        in_smallest_order,
        lay_out,
        map_bytes,
        records_of,
    )
    from cacheinf_ros.engine.quantisation import executed_graph
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.memory import OFFSETS, SHARED_OBJECTS, least_for_offsets, least_for_shared_objects
    from cacheinf_ros.memory.optimal import optimal

    loaded = load_model(model, weights=weights, input_size=parse_size(size))
    config = EngineConfig.checked(
        cache=Cache.MERGED, cache_budget_mb=cache_budget_mb, threads=threads, device=device, precision=precision
    )
    executed = executed_graph(loaded, config)
    caching = Caching.nothing(lay_out(executed)) if cache_budget_mb == 0 else chosen_caching(loaded, config)
    graph = in_smallest_order(executed, caching)
    layout = lay_out(graph)
    records = records_of(layout, caching)
    kept = [name for name in droppable(layout) if name not in caching.dropped]
    kept_mib = sum(map_bytes(layout, name) for name in kept) / MIB
    typer.echo(f"{len(kept)} feature maps are kept between frames, {kept_mib:.1f} MiB; {len(records)} live within one")
    best = optimal(records, time_limit_s=time_limit_s)
    if graph is not executed:
        own = optimal(records_of(lay_out(executed), caching), time_limit_s=time_limit_s).placement.size / MIB
        typer.echo(f"operators run in an order that needs less memory: in the model's own the arena is {own:.3f} MiB")
    table = Table(
        "strategy", "shared objects, MiB", "one arena, MiB", title=f"{escape(loaded.name)}, {len(records)} tensors"
    )
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
    """Draw a rectangle for each tensor: computations across, addresses in MiB up.

    Raises:
        ConfigError: the picture cannot be written.
    """
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
    axes.set(title=f"{title}: {placement.size / MIB:.2f} MiB", xlabel="computation", ylabel="MiB")
    axes.set(xlim=(0, end), ylim=(0, placement.size / MIB or 1))
    with writing(path):
        figure.savefig(path, dpi=110)
