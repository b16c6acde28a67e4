# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf soak``: runs robots and a server for hours with faults, and checks every result."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import with_options
from cacheinf_ros.cli.output_files import checked_folder
from cacheinf_ros.harness import Column
from cacheinf_ros.harness.resources import Slope
from cacheinf_ros.harness.soak_limits import SoakLimits
from cacheinf_ros.harness.soak_report import FaultRates, SoakConfig, SoakReport
from cacheinf_ros.sources import open_source

_S_PER_HOUR = 3600.0
_MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions:
    """Options of ``cacheinf soak``."""

    hours: Annotated[float, typer.Option(min=0.001, help="How long.")] = 1.0
    robots: Annotated[int, typer.Option(min=1, max=64, help="Robots, each a node with a camera.")] = 8
    slots: Annotated[int, typer.Option(min=1, max=1000, help="Robots that the server has room for.")] = 4
    rate: Annotated[float, typer.Option(min=0.05, help="Images per second of each camera.")] = 1.0
    model: Annotated[str, typer.Option("--model", "-m", help="What the robots run.")] = "scenenet"
    source: Annotated[str, typer.Option(help="What their cameras see.")] = "scene:fixed?size=240x320"
    policy: Annotated[str, typer.Option(help="server.policy of the robots; all: they take turns.")] = "all"
    rates: FaultRates
    visit_every_s: Annotated[float, typer.Option(min=0.1, help="Mean time between robots that only greet, s.")] = 3.6
    tune_every_s: Annotated[
        float, typer.Option(min=0, help="With --policy all: mean time between changes of a robot's policy, s; 0: none.")
    ] = 10.0
    rest_every_s: Annotated[
        float,
        typer.Option(
            min=0, help="Time between moments in which all robots leave the server, to compare its memory, s; 0: none."
        ),
    ] = 300.0
    patience_s: Annotated[float, typer.Option(min=1, help="How long a frame may wait for its result, s.")] = 10.0
    limits: SoakLimits
    seed: Annotated[int, typer.Option(help="Of all that is random.")] = 0
    out: Annotated[Path, typer.Option(help="Folder for report.json and the nodes' logs.", callback=checked_folder)] = (
        Path("out/soak")
    )


@with_options(SoakOptions)
def soak(options: SoakOptions) -> None:
    """Let robots share a server for hours while things go wrong, and check every result against dense execution.

    Processes are killed, restarted, paused and find their disk full; images are lost, late, doubled, reordered,
    damaged, and their clock jumps; packets are lost, late, doubled, reordered, damaged, cut off, foreign or old, and
    the link is cut; policies are changed while robots work; other robots come and go, some with other weights or
    another version. Every image that a node could take must have one right result or a stated error. Writes
    OUT/report.json. Exit code 1 where anything happened that must never happen, or a limit was exceeded.
    """
    from cacheinf_ros.harness import private_domain
    from cacheinf_ros.harness.soak import soak as run

    open_source(options.source)  # a mistake is reported before anything starts
    names = [field.name for field in fields(options) if field.name not in ("hours", "out", "limits")]
    own = {name: getattr(options, name) for name in names}
    config = SoakConfig(duration_s=options.hours * _S_PER_HOUR, **own)
    out = options.out
    console = Console()
    with private_domain() as domain:
        report = run(config, domain=domain, folder=out / "logs", progress=console.log)
    limits = options.limits
    judged = {"exceeded": limits.exceeded(report), "not_judged": limits.not_judged(report)}
    write_report(out / "report.json", figures(report) | {"limits": limits.model_dump(), **judged})
    for table in _tables(report):
        console.print(table)
    console.print(f"report: {out / 'report.json'}")
    for line in judged["not_judged"]:
        console.print(f"not judged: {line}")
    for line in judged["exceeded"]:
        console.print(f"[red]over the limit[/]: {line}")
    if not report.is_clean:
        console.print(f"[red]something happened that must never happen[/]; the nodes' logs are in {out / 'logs'}")
    if judged["exceeded"] or not report.is_clean:
        raise typer.Exit(1)


def figures(report: SoakReport) -> dict[str, Any]:
    """Return the report as it is written as JSON."""
    kinds = sorted({fault for fault, _ in report.recovery_s})
    recovery = {kind: [seconds for fault, seconds in report.recovery_s if fault == kind] for kind in kinds}
    return {
        "sent": report.sent,
        "frames": {fate.value: count for fate, count in report.fates.items()},
        "missing": dict(report.unanswered.missing),
        "silent": dict(report.unanswered.silent),
        "injected": {
            column.value: {
                kind: count for (whom, kind), count in sorted(report.injected.items(), key=str) if whom is column
            }
            for column in Column
        },
        "visits": dict(report.visits),
        "tuned": dict(report.tuned),
        "where": dict(report.where),
        "recovery_s": {"all": _spread([seconds for _, seconds in report.recovery_s])}
        | {kind: _spread(seconds) for kind, seconds in recovery.items()},
        "starts_s": _spread(report.starts_s),
        "growth": [asdict(growth) | {"memory_slope": _in_mb(growth.memory_slope)} for growth in report.growth],
        "diagnostics": report.diagnostics,
        "sessions": report.server.sessions,
        "server_at_rest": {
            "pid_s_mb": [[rest.pid, round(rest.at_s, 1), rest.resident_bytes / _MB] for rest in report.server.rests],
            "growth_mb": _in_mb(report.server.growth),
            "missed": report.server.missed_rests,
        },
        "deaths": report.deaths,
        "tracebacks": report.tracebacks,
        "clean": report.is_clean,
    }


def _in_mb(slope: Slope | None) -> dict[str, float] | None:
    return None if slope is None else asdict(slope.in_mb)


def _told(slope: Slope | None) -> str:
    return "" if slope is None else f"{slope.in_mb.per_hour:+.1f} +- {slope.in_mb.error_per_hour:.1f}"


def _spread(seconds: list[float]) -> dict[str, float]:
    spread = {f"p{q}": float(np.percentile(seconds, q)) for q in (50, 95, 99)} if seconds else {}
    return {"count": len(seconds), **spread}


def _tables(report: SoakReport) -> list[Table]:
    table = Table("fault", *(column.value for column in Column), title="faults")
    kinds = dict.fromkeys(kind for _, kind in report.injected)
    for kind in kinds:
        table.add_row(kind, *(f"{report.injected[column, kind] or ''}" for column in Column))
    table.add_section()
    sums = {column: sum(count for (whom, _), count in report.injected.items() if whom is column) for column in Column}
    table.add_row("all", *(f"{count}" for count in sums.values()))
    counts = Table("what", "how often", title="soak")
    for name, count in sorted(report.visits.items()):
        counts.add_row(f"visitor {name}", f"{count}")
    counts.add_row("sessions begun by one process of the server", f"{report.server.sessions}")
    counts.add_section()
    counts.add_row("frames sent", f"{report.sent}")
    for fate, count in report.fates.items():
        counts.add_row(f"frame: {fate.value}", f"[red]{count}[/]" if fate.is_fault and count else f"{count}")
    for reason, count in sorted(report.tuned.items()):
        counts.add_row(f"policy changed: {reason}", f"{count}")
    for name, count in sorted(report.where.items()):
        counts.add_row(f"computed: {name}", f"{count}")
    for what, spread in {**figures(report)["recovery_s"], "processes' starts": _spread(report.starts_s)}.items():
        if spread["count"]:
            counts.add_row(f"seconds, {what}: p50, p99", f"{spread['p50']:.2f}, {spread['p99']:.2f}")
    for log, count in report.unanswered.missing.items():
        counts.add_row(f"[red]missing: {log}[/]", f"{count}")
    for log, count in report.unanswered.silent.items():
        counts.add_row(f"excused after more than 5 s: {log}", f"{count}")
    for line in [*report.deaths, *report.tracebacks]:
        counts.add_row("[red]died, or has a traceback[/]", line)
    growth = Table("process", "lived s", "MB", "MB per hour", "threads", "descriptors", title="growth")
    for each in report.growth:
        growth.add_row(
            each.name, f"{each.lived_s:.0f}", f"{each.memory_mb:.0f}", _told(each.memory_slope),
            "{} to {}".format(*each.threads), "{} to {}".format(*each.descriptors),
        )  # fmt: skip
    if report.server.growth is not None:
        growth.add_row("server while nobody was there", "", "", _told(report.server.growth), "", "")
    return [table, counts, growth]
