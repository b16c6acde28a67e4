# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench offload``: measures what sharing the work with a server gains over a link of limited bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import shown_progress, write_report
from cacheinf_ros.cli.bench.measured_options import RecordingOptions
from cacheinf_ros.cli.options import JsonFile, described, with_options
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.offload import OffloadConfig, WireImage
from cacheinf_ros.offload.protocol.limited_link import Trace

if TYPE_CHECKING:
    from benchmarks.offload.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadOptions:
    """The options of ``cacheinf bench offload``: policies, links, and how slow the robot is."""

    played: RecordingOptions
    bandwidth: Annotated[
        str,
        typer.Option(
            metavar="LINKS",
            help="Of the link, separated by commas: Mbit/s, the traces indoor and outdoor, or CSV files with the "
            "columns seconds and mbit_s.",
        ),
    ] = "48"
    policies: Annotated[str, typer.Option(metavar="NAMES", help="Separated by commas; or all.")] = "all"
    frames: Annotated[int, typer.Option(min=1, help="How many are counted, after ten to warm up.")] = 60
    rounds: Annotated[
        int,
        typer.Option(min=1, help="How often the source is played for each policy: they take turns, in both orders."),
    ] = 2
    robot_cores: Annotated[float, typer.Option(min=0.05, max=64, help="Processors' worth of the robot's time.")] = 0.5
    schedule_s: Annotated[float, typer.Option(min=1, help="How long schedules are searched for, s.")] = 30.0
    wire_image: Annotated[WireImage, described(OffloadConfig, "wire_image")] = WireImage.PNG
    threshold: Annotated[float, described(MatchingConfig, "threshold")] = MatchingConfig().threshold
    json_file: JsonFile = None


@with_options(OffloadOptions)
def offload(options: OffloadOptions) -> None:
    """Measure every way to divide the work between a robot and a server, over a link of limited bandwidth.

    Both are real nodes: the robot's has a fraction of a processor, the server's runs behind a shaped virtual link.
    Without root both delay what they send instead, and the report says so.

    Example: cacheinf bench offload --model torchvision:resnet50 --size 480x640 --source clip.mp4 --bandwidth 8,48
    """
    from benchmarks.offload.run import run_offload_benchmark
    from cacheinf_ros.sources import open_source

    open_source(options.played.source)  # a mistake in the source is reported before anything starts
    setting = _setting(options)
    with shown_progress("starting the server") as show:
        report = run_offload_benchmark(setting, _links(options.bandwidth), show)
    write_report(options.json_file, report)
    _print(report)
    if _told_failures(report):
        raise typer.Exit(1)


def _setting(options: OffloadOptions) -> Setting:
    from benchmarks.offload.comparators import SYSTEMS, robot
    from benchmarks.offload.setting import Setting

    names = list(SYSTEMS) if options.policies == "all" else [name.strip() for name in options.policies.split(",")]
    for name in names:
        if name not in SYSTEMS:
            raise ConfigError(f"policy {name!r}: known are {', '.join(SYSTEMS)}")
    return Setting(
        model=options.played.model,
        weights=str(options.played.weights or ""),
        size=options.played.size or "",
        source=options.played.source,
        frames=options.frames,
        rounds=options.rounds,
        systems={name: SYSTEMS[name] for name in names},
        robot=robot(),
        robot_cores=options.robot_cores,
        schedule_s=options.schedule_s,
        wire_image=options.wire_image,
        threshold=options.threshold,
    )


def _links(text: str) -> dict[str, Trace]:
    from cacheinf_ros.nodes.limited import find_trace

    return {name.strip(): find_trace(name.strip()) for name in text.split(",")}


def _told_failures(report: dict[str, Any]) -> bool:
    """Print which policies left frames without an answer or failed, and return whether any did."""
    console, told = Console(), False
    for link, found in report["bandwidth"].items():
        for policy, figures in found["systems"].items():
            errors, unanswered = figures["errors"], figures["unanswered"]
            if not errors and not unanswered:
                continue
            told, first = True, f": {figures['first_error']}" if errors else ""
            text = f"{policy} at {link}: {errors} frames failed and {unanswered} got no answer{first}"
            console.print(f"[red]{escape(text)}[/]")
    return told


def _print(report: dict[str, Any]) -> None:
    console = Console()
    for mbit_s, found in report["bandwidth"].items():
        robot = f"the robot has {report['robot_cores']:g} processors ({report['processor_limit']})"
        title = f"{report['model']}, link {mbit_s} (shaped by {report['shaping']}), {robot}"
        joules = f"J ({', '.join(sorted({figures['energy_kind'] for figures in found['systems'].values()}))})"
        table = Table(
            "policy", "mean ms", "p50 ms", "p95 ms", "sent MB", "local", "where", joules, "error",
            title=title, caption=f"energy: {report['energy']}",
        )  # fmt: skip
        for policy, figures in found["systems"].items():
            latency = figures["latency_ms"]
            times = ("n/a" if latency[key] is None else f"{latency[key]:.1f}" for key in ("mean", "p50", "p95"))
            where = ", ".join(f"{count} {place}" for place, count in figures["where"].items())
            table.add_row(
                policy, *times, f"{figures['mb_per_frame']:.3f}", f"{figures['local_share']:.0%}", where,
                f"{figures['energy_j']:.2f}", f"{error['max']:.1e}" if (error := figures["output_error"]) else "n/a",
            )  # fmt: skip
        console.print(table)
