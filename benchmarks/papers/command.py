# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench paper``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import JsonFile, with_options


class Paper(Enum):
    """A paper whose tables and figures are here."""

    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """Which part of which paper ``cacheinf bench paper`` prints."""

    paper: Annotated[Paper, typer.Argument(help="memory: Pisarchyk and Lee (2020).")]
    table: Annotated[int | None, typer.Option(help="Only this table.")] = None
    figure: Annotated[int | None, typer.Option(help="Only this figure.")] = None
    json_file: JsonFile = None


@with_options(PaperOptions)
def paper(options: PaperOptions) -> None:
    """A paper's tables and figures: what it says beside what comes out here.

    Example: cacheinf bench paper memory --table 1
    """
    from benchmarks.memory import paper_tables

    everything = options.table is None and options.figure is None
    tables = _chosen("table", options.table, paper_tables.TABLES, everything)
    figures = _chosen("figure", options.figure, paper_tables.FIGURES, everything)
    report: dict[str, Any] = {
        "tables": {number: paper_tables.table(number) for number in tables},
        "figures": {number: paper_tables.figure(number) for number in figures},
    }
    write_report(options.json_file, report)
    console = Console()
    for number, rows in report["tables"].items():
        console.print(_table(number, rows))
    for number, found in report["figures"].items():
        _print_figure(console, number, found)


def _chosen(kind: str, number: int | None, known: tuple[int, ...], everything: bool) -> tuple[int, ...]:
    if number is not None and number not in known:
        raise typer.BadParameter(f"{number} is none of the {kind}s {', '.join(map(str, known))}")
    if number is None:
        return known if everything else ()
    return (number,)


def _table(number: int, rows: dict[str, Any]) -> Table:
    networks = list(next(iter(rows.values())))
    table = Table("strategy", *networks, title=f"table {number}, MiB: paper / ours")
    for row, found in rows.items():
        table.add_row(row, *(f"{found[n]['paper']:.3f} / {found[n]['ours']:.3f}" for n in networks))
    return table


def _print_figure(console: Console, number: int, found: dict[str, Any]) -> None:
    rest = {key: value for key, value in found.items() if not (isinstance(value, list) and isinstance(value[0], dict))}
    for key in found.keys() - rest.keys():
        table = Table(*found[key][0], title=f"figure {number}: {key}")
        for row in found[key]:
            table.add_row(*map(str, row.values()))
        console.print(table)
    for key, value in rest.items():
        console.print(f"{key.replace('_', ' ')}: {value}")
