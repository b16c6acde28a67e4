# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The command ``cacheinf bench paper``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from benchmarks.papers.stated import NOTE, PAPER
from cacheinf_ros.cli.bench.bench_report import shown_progress, write_report
from cacheinf_ros.cli.options import JsonFile, Size, Weights, with_options
from cacheinf_ros.config import parse_size
from cacheinf_ros.errors import SourceError

_MOST = 40  # values in a line
_WIDEST = 400  # columns of a printed table
_MISSING = "missing"
_STD = "_std"  # suffix of the key of a standard deviation


class Paper(Enum):
    """The papers whose tables and figures are reproduced."""

    MEMORY = "memory"
    DEEPCACHE = "deepcache"
    MCDNN = "mcdnn"
    CACHEINF = "cacheinf"


_PAGES = {
    Paper.MEMORY: "benchmarks.memory.paper_pages",
    Paper.DEEPCACHE: "benchmarks.deepcache.paper_pages",
    Paper.MCDNN: "benchmarks.catalog.paper_figures",
    Paper.CACHEINF: "benchmarks.offload.paper_tables",
}


class Pages(Protocol):
    """The tables and figures of a paper."""

    TABLES: tuple[int, ...]
    FIGURES: tuple[int, ...]

    def table(self, number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
        """Return a table, by row."""
        ...

    def figure(self, number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
        """Return a figure, by what it shows."""
        ...

    def draw(self, number: int, found: dict[str, Any], path: Path) -> None:
        """Draw a figure."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """The options of ``cacheinf bench paper``: which part of which paper, and on what it is measured."""

    paper: Annotated[
        Paper,
        typer.Argument(
            help="memory: Pisarchyk and Lee (2020); deepcache: Xu et al. (2018); mcdnn: Han et al. (2016); cacheinf: "
            "the draft. Others than memory take minutes."
        ),
    ]
    table: Annotated[int | None, typer.Option(help="Only this table.")] = None
    figure: Annotated[int | None, typer.Option(help="Only this figure.")] = None
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="What to measure, repeatable. mcdnn: catalogs; cacheinf: a folder of frames; deepcache: CLASS/CLIP as "
            "UCF101, or CLIP/PICTURE, else built-in scenes.",
        ),
    ] = None
    sweep: Annotated[
        str | None, typer.Option(help="deepcache: vary threshold, block_size, k_skip or expiry instead.")
    ] = None
    speed: Annotated[
        bool, typer.Option(help="memory: instead time dense frames in one arena, and without one (the claim of 10 %).")
    ] = False
    network: Annotated[
        str | None,
        typer.Option(
            help="deepcache: alexnet, googlenet, resnet50, yolo or dave; by default the figure's. cacheinf: one of the "
            "table's, by the paper's or the model's name; by default all."
        ),
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="deepcache, figure 13: a classifier of the clips' classes.")
    ] = None
    weights: Weights = None
    size: Size = None
    frames: Annotated[int, typer.Option(min=3, help="deepcache: frames of each clip.")] = 30
    threads: Annotated[int, typer.Option(min=1, max=256, help="deepcache: threads of the engine.")] = 1
    plots: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw the figures there, as PNG.")] = None
    json_file: JsonFile = None


@with_options(PaperOptions)
def paper(options: PaperOptions) -> None:
    """Print a paper's tables and figures next to what comes out here; docs/papers.md explains the differences.

    Example: cacheinf bench paper memory --table 1
    """
    console = Console()
    if options.sweep is not None or options.speed:
        rows = _arena_speed(options) if options.speed else _swept(options)
        write_report(options.json_file, {"rows": rows})
        title = options.sweep or "dense frames, maps in one arena and each in memory of its own"
        _print_whole(console, _rows(title, rows))
        return
    pages, name = _pages(options), options.paper.value
    everything = options.table is None and options.figure is None
    tables = _chosen("table", options.table, pages.TABLES, everything, options.network)
    figures = _chosen("figure", options.figure, pages.FIGURES, everything, options.network)
    data = tuple(options.data or ())
    with shown_progress(name) as show:
        report: dict[str, Any] = {
            "tables": {number: pages.table(number, data, show) for number in tables},
            "figures": {number: _figure(pages, number, data, show, everything) for number in figures},
        }
    write_report(options.json_file, report)
    for number, rows in report["tables"].items():
        _print_whole(console, _table(number, rows))
    for number, found in report["figures"].items():
        _print_figure(console, number, found)
        if options.plots is not None and _MISSING not in found:
            pages.draw(number, found, options.plots / f"{name}_figure_{number}.png")


def _pages(options: PaperOptions) -> Pages:
    pages = import_module(_PAGES[options.paper])
    if options.paper is Paper.CACHEINF:
        return cast(Pages, pages.CacheInfPages(network=options.network))
    if options.paper is not Paper.DEEPCACHE:
        if options.network is not None:
            raise typer.BadParameter("--network is for deepcache and cacheinf")
        return cast(Pages, pages)
    classifier = None
    if options.model is not None:
        from cacheinf_ros.graph import load_model

        classifier = load_model(options.model, weights=options.weights, input_size=parse_size(options.size))
    return cast(
        Pages,
        pages.DeepCachePages(
            network=options.network, frames=options.frames, threads=options.threads, classifier=classifier
        ),
    )


def _figure(
    pages: Pages, number: int, data: Sequence[Path], show: Callable[[str], None], everything: bool
) -> dict[str, Any]:
    """Return a figure; where everything is asked for, missing input of the user is reported in place of the figure."""
    try:
        return pages.figure(number, data, show)
    except SourceError as error:
        if not everything:
            raise
        return {_MISSING: str(error)}


def _swept(options: PaperOptions) -> list[dict[str, Any]]:
    if options.paper is not Paper.DEEPCACHE:
        raise typer.BadParameter("--sweep is for deepcache")
    pages = cast(Any, _pages(options))
    with shown_progress("deepcache") as show:
        return cast(list[dict[str, Any]], pages.swept(options.sweep, tuple(options.data or ()), show))


def _arena_speed(options: PaperOptions) -> list[dict[str, Any]]:
    from benchmarks.memory.arena_speed import arena_speed

    if options.paper is not Paper.MEMORY:
        raise typer.BadParameter("--speed is for memory")
    return arena_speed(frames=options.frames, threads=options.threads)


def _chosen(
    kind: str, number: int | None, known: tuple[int, ...], everything: bool, network: str | None
) -> tuple[int, ...]:
    if number is not None and number not in known:
        which = f"{kind}s of {network}" if network else f"{kind}s"
        raise typer.BadParameter(f"{number} is none of the {which}: {', '.join(map(str, known)) or 'there are none'}")
    if number is None:
        return known if everything else ()
    return (number,)


def _table(number: int, rows: dict[str, Any]) -> Table:
    if "rows" in rows:
        return _rows(f"table {number}", rows["rows"], rows.get(NOTE))
    by_name = {name: row for name, row in rows.items() if name != NOTE}
    columns = list(dict.fromkeys(key for row in by_name.values() for key in row))
    title = f"table {number}; of two numbers the first is the paper's"
    table = Table("", *columns, title=title, caption=rows.get(NOTE))
    for name, row in by_name.items():
        table.add_row(name, *(_cell(row.get(column, "")) for column in columns))
    return table


def _print_whole(console: Console, table: Table) -> None:
    """Print a table at its full width, beyond that of the terminal, where rich would cut names and numbers short."""
    needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    Console(width=max(console.width, needed)).print(table)


def _rows(title: str, rows: Sequence[Mapping[str, Any]], note: str | None = None) -> Table:
    table = Table(*rows[0], title=title, caption=note)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _stated(number: int, rows: Sequence[Mapping[str, Any]], note: str | None) -> Table:
    """Tabulate the numbers that the paper's text states about a figure, and ours."""
    table = Table(
        "quantity", "paper", "ours", "stated in", title=f"figure {number}: the paper beside ours", caption=note
    )
    for row in rows:
        table.add_row(row["quantity"], _amount(row["paper"]), _amount(row["ours"]), row["cited"])
    return table


def _amount(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(map(_line, value))
    return "n/a" if value is None else _line(value)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return " / ".join(_deviating(value, key) for key in value if not key.endswith(_STD))
    if value is None:
        return "n/a"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _deviating(values: Mapping[str, Any], key: str) -> str:
    """Format a number, with its standard deviation where there is one."""
    deviation = values.get(f"{key}{_STD}")
    return _cell(values[key]) if deviation is None else f"{_cell(values[key])} ± {_cell(deviation)}"


def _print_figure(console: Console, number: int, found: dict[str, Any]) -> None:
    for key, value in found.items():
        if key in (PAPER, NOTE):
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            _print_whole(console, _rows(f"figure {number}: {key}", value))
        elif isinstance(value, dict):
            for name, each in value.items():
                console.print(f"{key.replace('_', ' ')}, {name}: {_line(each)}")
        else:
            console.print(f"{key.replace('_', ' ')}: {value}")
    if PAPER in found:
        console.print(_stated(number, found[PAPER], found.get(NOTE)))
    elif NOTE in found:
        console.print(f"figure {number}: {found[NOTE]}")


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_line(each)}" for key, each in value.items() if key not in ("samples", "std"))
    if isinstance(value, list) and len(value) > _MOST:
        return f"{len(value)} values"
    if isinstance(value, list):
        return ", ".join(_line(each) for each in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
