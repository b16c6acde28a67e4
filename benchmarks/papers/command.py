# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench paper``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import JsonFile, Size, Weights, with_options
from cacheinf_ros.config import parse_size


class Paper(Enum):
    """A paper whose tables and figures are here."""

    MEMORY = "memory"
    DEEPCACHE = "deepcache"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """Which part of which paper ``cacheinf bench paper`` prints, and on what it is measured."""

    paper: Annotated[Paper, typer.Argument(help="memory: Pisarchyk and Lee (2020). deepcache: Xu et al. (2018).")]
    table: Annotated[int | None, typer.Option(help="Only this table.")] = None
    figure: Annotated[int | None, typer.Option(help="Only this figure.")] = None
    sweep: Annotated[
        str | None, typer.Option(help="deepcache: vary threshold, block_size, k_skip or expiry instead.")
    ] = None
    speed: Annotated[
        bool, typer.Option(help="memory: instead time dense frames in one arena, and without one (the claim of 10 %).")
    ] = False
    data: Annotated[
        Path | None,
        typer.Option(help="deepcache: folder CLASS/CLIP (as UCF101) or CLIP/PICTURE; without it built-in scenes."),
    ] = None
    network: Annotated[
        str | None, typer.Option(help="deepcache: alexnet, googlenet, resnet50, yolo or dave; by default the figure's.")
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="deepcache, figure 13: a classifier of the clips' classes.")
    ] = None
    weights: Weights = None
    size: Size = None
    frames: Annotated[int, typer.Option(min=3, help="deepcache: frames of each clip.")] = 30
    threads: Annotated[int, typer.Option(min=1, max=256, help="deepcache: threads of the engine.")] = 1
    pictures: Annotated[Path | None, typer.Option(metavar="FOLDER", help="deepcache: draw figures there, PNG.")] = None
    json_file: JsonFile = None


@with_options(PaperOptions)
def paper(options: PaperOptions) -> None:
    """A paper's tables and figures: what it says beside what comes out here.

    Example: cacheinf bench paper memory --table 1
    """
    report = _memory(options) if options.paper is Paper.MEMORY else _deepcache(options)
    write_report(options.json_file, report)


def _memory(options: PaperOptions) -> dict[str, Any]:
    from benchmarks.memory import paper_tables
    from benchmarks.memory.arena_speed import arena_speed

    console = Console()
    if options.speed:
        rows = arena_speed(frames=options.frames, threads=options.threads)
        console.print(_rows("dense frames, maps in one arena and each in memory of its own", rows))
        return {"speed": rows}
    tables, figures = _chosen(options, paper_tables.TABLES, paper_tables.FIGURES)
    report: dict[str, Any] = {
        "tables": {number: paper_tables.table(number) for number in tables},
        "figures": {number: paper_tables.figure(number) for number in figures},
    }
    for number, table in report["tables"].items():
        console.print(_strategies(number, table))
    for number, found in report["figures"].items():
        _print_figure(console, number, found)
    return report


def _deepcache(options: PaperOptions) -> dict[str, Any]:
    from benchmarks.deepcache import paper_tables
    from benchmarks.deepcache.clips import clips_in
    from benchmarks.deepcache.networks import NETWORKS
    from benchmarks.deepcache.plot import plot_rows
    from cacheinf_ros.graph import load_model

    if options.network not in (None, *NETWORKS):
        raise typer.BadParameter(f"network {options.network} is none of {', '.join(NETWORKS)}")
    if options.sweep not in (None, *paper_tables.SWEEPS):
        raise typer.BadParameter(f"sweep {options.sweep} is none of {', '.join(paper_tables.SWEEPS)}")
    classifier = None
    if options.model is not None:
        classifier = load_model(options.model, weights=options.weights, input_size=parse_size(options.size))
    setting = paper_tables.Setting(
        clips=clips_in(options.data, per_class=_CLIPS_PER_CLASS if classifier else 1),
        network=options.network,
        frames=options.frames,
        threads=options.threads,
        classifier=classifier,
    )
    tables, figures = _chosen(options, paper_tables.TABLES, paper_tables.FIGURES)
    if options.sweep is None and options.figure is None:
        figures = tuple(number for number in figures if number not in paper_tables.NEEDS_MORE)
    wanted = {f"table {number}": paper_tables.TABLES[number] for number in tables}
    wanted |= {f"figure {number}": paper_tables.FIGURES[number] for number in figures}
    if options.sweep is not None:
        wanted = {f"sweep of {options.sweep}": paper_tables.SWEEPS[options.sweep]}
    report: dict[str, Any] = {}
    console = Console()
    for name, measure in wanted.items():
        rows = report[name] = measure(setting)
        console.print(_rows(name, rows))
        if options.pictures is not None and not name.startswith("table") and name != "figure 8":
            plot_rows(rows, name, options.pictures / f"deepcache_{name.replace(' ', '_')}.png")
    return report


_CLIPS_PER_CLASS = 1000  # all of them


def _chosen(
    options: PaperOptions, tables: Iterable[int], figures: Iterable[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    everything = options.table is None and options.figure is None
    return (
        _among("table", options.table, tuple(tables), everything),
        _among("figure", options.figure, tuple(figures), everything),
    )


def _among(kind: str, number: int | None, known: tuple[int, ...], everything: bool) -> tuple[int, ...]:
    if number is not None and number not in known:
        raise typer.BadParameter(f"{number} is none of the {kind}s {', '.join(map(str, known))}")
    if number is None:
        return known if everything else ()
    return (number,)


def _strategies(number: int, rows: dict[str, Any]) -> Table:
    networks = list(next(iter(rows.values())))
    table = Table("strategy", *networks, title=f"table {number}, MiB: paper / ours")
    for row, found in rows.items():
        table.add_row(row, *(f"{found[n]['paper']:.3f} / {found[n]['ours']:.3f}" for n in networks))
    return table


def _print_figure(console: Console, number: int, found: dict[str, Any]) -> None:
    rest = {key: value for key, value in found.items() if not (isinstance(value, list) and isinstance(value[0], dict))}
    for key in found.keys() - rest.keys():
        console.print(_rows(f"figure {number}: {key}", found[key]))
    for key, value in rest.items():
        console.print(f"{key.replace('_', ' ')}: {value}")


def _rows(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table
