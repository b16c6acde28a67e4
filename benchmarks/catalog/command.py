# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench catalog``: many models under a budget of energy and money."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import shown_progress, write_report
from cacheinf_ros.cli.options import JsonFile, with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """The options of ``cacheinf bench catalog``: what it simulates and runs."""

    sections: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="figure11, figure12, oracle, specialisation, heads, day, separated by commas; or all."
        ),
    ] = "all"
    catalog: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Written by `cacheinf catalog build`; may be repeated. Without it: round numbers shaped after those "
            "of the paper.",
        ),
    ] = None
    copies: Annotated[int, typer.Option(min=1, help="Models with each catalog, that do not share their memory.")] = 4
    traces: Annotated[int, typer.Option(min=1, help="Random days for each point of a figure.")] = 10
    cache_mb: Annotated[int, typer.Option(min=1, help="Memory for variants on the device, 10**6 bytes.")] = 600
    energy_budget_j: Annotated[float, typer.Option(min=0, help="From the battery, for a day of 10 hours, J.")] = 18_000
    cloud_budget: Annotated[float, typer.Option(min=0, help="Paid to the cloud for the same day, dollars.")] = 2 / 30
    days: Annotated[int, typer.Option(min=1, help="Random days that are compared with the oracle.")] = 20
    workers: Annotated[int, typer.Option(min=1, help="Processes that simulate days.")] = 1
    plots: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw a picture of each section.")] = None
    json_file: JsonFile = None


@with_options(CatalogOptions)
def bench_catalog(options: CatalogOptions) -> None:
    """Run many models under a budget, as in the MCDNN paper.

    These are a simulated day (figures 11 and 12), a specialist for the classes that dominate, heads that share a trunk,
    and a day of real nodes (figure 13), which takes ten minutes.

    Example: cacheinf bench catalog --traces 2 --json out.json --plots pictures
    """
    from benchmarks.catalog.plot import PLOTS
    from benchmarks.catalog.sections import SECTIONS, run_catalog_benchmark
    from benchmarks.catalog.setting import Setting
    from cacheinf_ros.catalog.catalog_folder import read_catalog

    folders = options.catalog or ()
    setting = Setting(
        catalogs=tuple(read_catalog(folder).catalog for folder in folders),
        folders=tuple(folders),
        copies=options.copies,
        traces=options.traces,
        cache_bytes=options.cache_mb * 10**6,
        energy_j=options.energy_budget_j,
        money=options.cloud_budget,
        days=options.days,
        workers=options.workers,
    )
    chosen = tuple(SECTIONS) if options.sections == "all" else tuple(s.strip() for s in options.sections.split(","))
    with shown_progress("starting") as show:
        report = run_catalog_benchmark(setting, chosen, show)
    write_report(options.json_file, report)
    for name, found in report.items():
        _TABLES[name](found)
        if options.plots is not None and name in PLOTS:
            PLOTS[name](found, options.plots / f"{name}.png")


def _print_figure_11(found: dict[str, Any]) -> None:
    title = f"figure 11: {found['models']} models on the device alone"
    _print(
        found["schemes"],
        ("scheme", "switch rate"),
        f"{title}; load rates {', '.join(f'{rate:.2f}' for rate in found['load_rates'])}",
    )


def _print_figure_12(found: dict[str, Any]) -> None:
    title = f"figure 12: with the cloud, load rate {found['load_rate']:g}"
    _print(found["policies"], ("policy, J to send", "specialised"), title)


def _print_oracle(found: dict[str, Any]) -> None:
    columns = ("of the oracle's accuracy: mean", "least", "days within 2 %", "served", "budgets broken")
    table = Table("rule", *columns, title=f"{len(found['days'])} random days")
    for rule, figures in found["rules"].items():
        shares = (f"{figures[name]:.1%}" for name in ("mean", "least", "within_2_percent", "served"))
        table.add_row(rule, *shares, str(figures["broken_budgets"]))
    Console().print(table)


def _print_specialisation(found: dict[str, Any]) -> None:
    table = Table("mode", "made in, s", "alone, ms", "with it, ms", "accuracy alone", "with it", "withdrawn after, s")
    for mode, report in found.items():
        found_there = report["specialised"]
        times = (f"{found_there[name]['mean']:.2f}" for name in ("generic_ms", "chain_ms"))
        accuracies = (f"{found_there[name]:.3f}" for name in ("generic_accuracy", "chain_accuracy"))
        made, withdrawn = report["prepared_in_s"], report["withdrawn_after_s_of_data"]
        table.add_row(mode, f"{made:.2f}", *times, *accuracies, f"{withdrawn:.1f}")
    Console().print(table)


def _print_heads(found: dict[str, Any]) -> None:
    table = Table("mode", "one model, ms", "together, ms", "apart, ms", "together / one", "identical")
    for mode, report in found["modes"].items():
        means = (f"{report[name]['mean']:.2f}" for name in ("one_model_ms", "together_ms", "apart_ms"))
        table.add_row(mode, *means, f"{report['together_over_one']:.3f}", str(report["identical"]))
    Console().print(table)


def _print_day(found: dict[str, Any]) -> None:
    columns = (
        "policy",
        "requests",
        "served",
        "connected",
        "disconnected",
        "accuracy",
        "J left",
        "dollars left",
        "where",
    )
    table = Table(*columns, title=f"a day of {found['day_s']:g} s, real nodes, {found['energy_kind']} energy")
    for policy, report in found["policies"].items():
        shares = (f"{report[name]:.1%}" for name in ("served", "served_connected", "served_disconnected"))
        left = (f"{report['energy_left_j']:.1f}", f"{report['money_left']:.3f}")
        where = ", ".join(f"{count} {place}" for place, count in report["where"].items())
        table.add_row(policy, str(report["requests"]), *shares, f"{report['accuracy']:.3f}", *left, where)
    Console().print(table)


_TABLES: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "figure11": _print_figure_11,
    "figure12": _print_figure_12,
    "oracle": _print_oracle,
    "specialisation": _print_specialisation,
    "heads": _print_heads,
    "day": _print_day,
}


def _print(curves: Mapping[str, Any], heads: tuple[str, str], title: str) -> None:
    columns = ("served", "J", "accuracy", "of all", "loads", "device, split, cloud")
    caption = "means over traces; J and accuracy of requests that are served; of all: a refused one is wrong"
    table = Table(*heads, *columns, title=title, caption=caption, box=SIMPLE, padding=(0, 1, 0, 0))
    for contender, points in curves.items():
        for point, figures in points.items():
            mean = {key: value["mean"] for key, value in figures.items() if key not in ("places", "day_s")}
            table.add_row(
                contender,
                point,
                f"{mean['served']:.1%}",
                f"{mean['energy_per_request_j']:.2f}",
                f"{mean['accuracy']:.3f}",
                f"{mean['accuracy_of_all']:.3f}",
                f"{mean['loads']:.0f}",
                ", ".join(f"{share:.0%}" for share in figures["places"].values()),
            )
            contender = ""
    console = Console()
    console.print(table)
    slowest = max(figures["day_s"] for points in curves.values() for figures in points.values())
    console.print(f"the slowest day took {slowest:.1f} s to simulate")
