# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench paper``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import shown_progress, write_report
from cacheinf_ros.cli.options import JsonFile, with_options

_MOST = 40  # values in a line


class Paper(Enum):
    """A paper whose tables and figures are here."""

    MEMORY = "memory"
    MCDNN = "mcdnn"
    CACHEINF = "cacheinf"


_PAGES = {
    Paper.MEMORY: "benchmarks.memory.paper_pages",
    Paper.MCDNN: "benchmarks.catalog.paper_figures",
    Paper.CACHEINF: "benchmarks.offload.paper_tables",
}


class Pages(Protocol):
    """A paper's tables and figures."""

    TABLES: tuple[int, ...]
    FIGURES: tuple[int, ...]

    def table(self, number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
        """By row."""
        ...

    def figure(self, number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
        """By what it shows."""
        ...

    def draw(self, number: int, found: dict[str, Any], path: Path) -> None:
        """Draw a figure."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """Which part of which paper ``cacheinf bench paper`` prints."""

    paper: Annotated[
        Paper,
        typer.Argument(
            help="memory: Pisarchyk and Lee (2020); mcdnn: Han et al. (2016); cacheinf: the draft. Others than memory "
            "take minutes."
        ),
    ]
    table: Annotated[int | None, typer.Option(help="Only this table.")] = None
    figure: Annotated[int | None, typer.Option(help="Only this figure.")] = None
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="What to measure, repeatable. mcdnn: catalogs; cacheinf: a folder of frames."
        ),
    ] = None
    plots: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw the figures there, as PNG.")] = None
    json_file: JsonFile = None


@with_options(PaperOptions)
def paper(options: PaperOptions) -> None:
    """A paper's tables and figures: what it says beside what comes out here; docs/papers.md tells the differences.

    Example: cacheinf bench paper memory --table 1
    """
    pages, name = _pages(options.paper), options.paper.value
    everything = options.table is None and options.figure is None
    tables = _chosen("table", options.table, pages.TABLES, everything)
    figures = _chosen("figure", options.figure, pages.FIGURES, everything)
    data = tuple(options.data or ())
    with shown_progress(name) as show:
        report: dict[str, Any] = {
            "tables": {number: pages.table(number, data, show) for number in tables},
            "figures": {number: pages.figure(number, data, show) for number in figures},
        }
    write_report(options.json_file, report)
    console = Console()
    for number, rows in report["tables"].items():
        console.print(_table(number, rows))
    for number, found in report["figures"].items():
        _print_figure(console, number, found)
        if options.plots is not None:
            pages.draw(number, found, options.plots / f"{name}_figure_{number}.png")


def _pages(paper: Paper) -> Pages:
    return cast(Pages, import_module(_PAGES[paper]))


def _chosen(kind: str, number: int | None, known: tuple[int, ...], everything: bool) -> tuple[int, ...]:
    if number is not None and number not in known:
        raise typer.BadParameter(f"{number} is none of the {kind}s {', '.join(map(str, known))}")
    if number is None:
        return known if everything else ()
    return (number,)


def _table(number: int, rows: dict[str, Any]) -> Table:
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    table = Table("", *columns, title=f"table {number}; of two numbers the first is the paper's")
    for name, row in rows.items():
        table.add_row(name, *(_cell(row.get(column, "")) for column in columns))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return " / ".join(_cell(each) for each in value.values())
    if value is None:
        return "n/a"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _print_figure(console: Console, number: int, found: dict[str, Any]) -> None:
    for key, value in found.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            table = Table(*value[0], title=f"figure {number}: {key}")
            for row in value:
                table.add_row(*map(_cell, row.values()))
            console.print(table)
        elif isinstance(value, dict):
            for name, each in value.items():
                console.print(f"{key.replace('_', ' ')}, {name}: {_line(each)}")
        else:
            console.print(f"{key.replace('_', ' ')}: {value}")


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_line(each)}" for key, each in value.items() if key not in ("samples", "std"))
    if isinstance(value, list) and len(value) > _MOST:
        return f"{len(value)} values"
    if isinstance(value, list):
        return ", ".join(_line(each) for each in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
