# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench memory``: measures memory and time of a model's feature maps, all cached, merged, and none."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.laboratory import in_checkout, laboratory
from cacheinf_ros.cli.options import JsonFile, Size, Threads, with_options
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """Options of ``cacheinf bench memory``."""

    instances: Annotated[
        Path | None, typer.Option(help="A folder of allocation problems, NAME.CAPACITY.csv, as MiniMalloc's.")
    ] = None
    time_limit_s: Annotated[float, typer.Option(min=0, help="For the optimum of each problem.")] = 120.0
    merging: Annotated[bool, typer.Option(help="Whether caches are merged too, which takes minutes.")] = True
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model whose caches are merged; may be repeated. Without it: four of torchvision's, if it is here."
        ),
    ] = None
    size: Size = None
    source: Annotated[
        str | None, typer.Option(help="What merged caches are timed on (see `bench engine`). Without it: predictions.")
    ] = None
    frames: Annotated[int, typer.Option(min=1, help="How many frames are timed, after two to warm up.")] = 40
    merging_limit_s: Annotated[float, typer.Option(min=0, help="For each evolution of merged caches.")] = 10.0
    threads: Threads = EngineConfig().threads
    json_file: JsonFile = None


@with_options(MemoryOptions)
def memory(options: MemoryOptions) -> None:
    """Measure memory and time with all feature maps cached, with merged caches, and with none.

    In a checkout of the repository also print arena sizes of every placement strategy, on the networks of the planner's
    paper and on hard problems.

    Example: cacheinf bench memory --model torchvision:vgg19 --model torchvision:resnet50 --size 480x640
    """
    placements = laboratory("benchmarks.memory") if in_checkout() or options.instances else None
    found = {}
    if placements is not None:
        found = placements.run_placement_benchmark(options.instances, time_limit_s=options.time_limit_s)
    report = {**found, "peak": _merged(options) if options.merging else {}}
    write_report(options.json_file, report)
    if placements is not None:
        placements.print_placements(report)
    if report["peak"]:
        Console().print(_peak_table(report["peak"]))
        Console().print(_choices_table(report["peak"]))


def _merged(options: MemoryOptions) -> dict[str, Any]:
    from cacheinf_ros.bench import TORCHVISION_MODELS, run_merging_benchmark, warm_up_frames
    from cacheinf_ros.engine.frame_placement import check_voxels
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.sources import open_source, voxel_grid_of

    without = TORCHVISION_MODELS if find_spec("torchvision") else ()
    references = without if options.model is None else options.model
    models = [load_model(reference, input_size=parse_size(options.size)) for reference in references]
    grid = voxel_grid_of(options.source) if options.source else None
    for model in models:
        check_voxels(grid, model.card)
    config = EngineConfig(threads=options.threads)
    count = options.frames + warm_up_frames(config.device)
    images = [frame.image for frame in itertools.islice(open_source(options.source), count)] if options.source else []
    return {
        model.name: run_merging_benchmark(model, config, images, time_limit_s=options.merging_limit_s)
        for model in models
    }


def _peak_table(models: dict[str, Any]) -> Table:
    kinds = ("no_cache", "cache_all", "merged")
    heads = [f"{kind.replace('_', ' ')}, MiB" for kind in kinds] + [f"{kind.replace('_', ' ')}, ms" for kind in kinds]
    table = Table("model", *heads, title="weights and feature maps; times predicted / measured")
    for name, found in models.items():
        measured = found.get("measured_ms", {})
        times = (
            f"{found['predicted_ms'][kind]:.1f}" + (f" / {measured[kind]:.1f}" if kind in measured else "")
            for kind in kinds
        )
        table.add_row(name, *(f"{found[kind]:.0f}" for kind in kinds), *times)
    return table


def _choices_table(models: dict[str, Any]) -> Table:
    table = Table("model", "budget, MB", "method", "cache, MiB", "arena, MiB", "ms", title="choices of maps to keep")
    for name, found in models.items():
        for budget, methods in [("", found["methods"])] + [
            (f"{entry['budget_mb']:.0f}", entry["methods"]) for entry in found["budgets"]
        ]:
            for method, figures in methods.items():
                cells = (f"{figures[key]:.1f}" for key in ("cache_mib", "arena_mib", "predicted_ms"))
                table.add_row(name, budget, method, *cells)
    return table
