# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf profile`` and ``cacheinf bench offload``: what sharing the work with a server costs and gains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from cacheinf_ros.cli.options import JsonFile, ModelReference, Size, SourceReference, Threads, Weights, described
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.offload import OffloadConfig, WireImage
from cacheinf_ros.offload.protocol.limited_link import Trace

_DEFAULTS = EngineConfig()


def profile(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    weights: Weights = None,
    size: Size = None,
    threads: Threads = _DEFAULTS.threads,
    reuse: Annotated[float, typer.Option(min=0, max=1, help="Reuse ratio of the input.")] = 0.95,
    json_file: JsonFile = None,
) -> None:
    """What each operator takes on this machine, what of it is active, and what its output weighs on a link.

    Measured once and stored; the nodes use the same figures for their schedules.

    Example: cacheinf profile torchvision:resnet50 --size 480x640 --reuse 0.95
    """
    from cacheinf_ros.engine import Engine
    from cacheinf_ros.engine.cost.model import POINTS
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.offload.planning import Workload
    from cacheinf_ros.offload.planning.partition_costs import at_share
    from cacheinf_ros.offload.planning.partition_costs import profile as profile_of

    loaded = load_model(model, weights=weights, input_size=parse_size(size))
    engine = Engine(loaded, EngineConfig.checked(threads=threads), with_server=True)
    workload = Workload(engine.program.layout)
    took, active = profile_of(workload.names, engine.cost), workload.active_at(reuse)[1:]
    now = at_share(took, active)
    table = Table("operator", "rows", "ms", f"active at {reuse:g}", "ms then", "KiB of output")
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(workload.names):
        kib = float(workload.heights[i + 1] * workload.row_values[i + 1] * 4 / 1024)
        height = int(workload.heights[i + 1])
        table.add_row(name, str(height), f"{took[i, -1]:.3f}", f"{active[i]:.1%}", f"{now[i]:.3f}", f"{kib:.0f}")
        curve = dict(zip(map(str, POINTS), took[i].tolist(), strict=True))
        rows.append({"operator": name, "rows": height, "ms": curve, "active": float(active[i]), "kib": kib})
    console = Console()
    console.print(table)
    console.print(f"{took[:, -1].sum():.1f} ms in all; {now.sum():.1f} ms at a reuse ratio of {reuse:g}")
    if json_file is not None:
        json_file.write_text(json.dumps({"model": loaded.name, "operators": rows}, indent=1) + "\n", encoding="utf-8")


def offload(
    model: ModelReference = "scenenet",
    weights: Weights = None,
    size: Size = None,
    source: SourceReference = "scene:fixed",
    bandwidth: Annotated[
        str,
        typer.Option(
            metavar="LINKS",
            help="Of the link, separated by commas: Mbit/s, the traces indoor and outdoor, or CSV files with the "
            "columns seconds and mbit_s.",
        ),
    ] = "48",
    policies: Annotated[str, typer.Option(metavar="NAMES", help="Separated by commas; or all.")] = "all",
    frames: Annotated[int, typer.Option(min=1, help="How many are counted, after ten to warm up.")] = 60,
    rounds: Annotated[
        int,
        typer.Option(min=1, help="How often the source is played for each policy: they take turns, in both orders."),
    ] = 2,
    robot_cores: Annotated[float, typer.Option(min=0.05, max=64, help="Processors' worth of the robot's time.")] = 0.5,
    schedule_s: Annotated[float, typer.Option(min=1, help="How long schedules are searched for, s.")] = 30.0,
    wire_image: Annotated[WireImage, described(OffloadConfig, "wire_image")] = WireImage.PNG,
    threshold: Annotated[float, described(MatchingConfig, "threshold")] = MatchingConfig().threshold,
    json_file: JsonFile = None,
) -> None:
    """Every way to divide the work between a robot and a server, over a link of limited bandwidth.

    Both are real nodes: the robot's has a fraction of a processor, the server's runs behind a shaped virtual link.
    Without root both hold up what they send instead, and the report says so.

    Example: cacheinf bench offload --model torchvision:resnet50 --size 480x640 --source clip.mp4 --bandwidth 8,48
    """
    from cacheinf_ros.benchmarks.offload import run_offload_benchmark
    from cacheinf_ros.benchmarks.offload_setting import SYSTEMS, Setting
    from cacheinf_ros.sources import open_source

    open_source(source)  # a mistake is told before anything starts
    chosen = SYSTEMS if policies == "all" else tuple(name.strip() for name in policies.split(","))
    for name in chosen:
        if name not in SYSTEMS:
            raise ConfigError(f"policy {name!r}: known are {', '.join(SYSTEMS)}")
    setting = Setting(
        model=model, weights=str(weights or ""), size=size or "", source=source, frames=frames, rounds=rounds,
        policies=chosen, robot_cores=robot_cores, schedule_s=schedule_s, wire_image=wire_image, threshold=threshold,
    )  # fmt: skip
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("starting the server")
        report = run_offload_benchmark(setting, _links(bandwidth), lambda text: bar.update(task, description=text))
    if json_file is not None:
        json_file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    _print(report)


def offload_plot(
    reports: Annotated[list[Path], typer.Argument(help="JSON files of `cacheinf bench offload`.", exists=True)],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("offload.png"),
) -> None:
    """Latency by bandwidth, and over time where the link follows a trace.

    Example: cacheinf bench offload-plot fixed.json wireless.json --out offload.png
    """
    from cacheinf_ros.benchmarks.offload_plot import plot_offload

    plot_offload([json.loads(path.read_text(encoding="utf-8")) for path in reports], out)


def _links(text: str) -> dict[str, Trace]:
    from cacheinf_ros.nodes.limited import find_trace

    return {name.strip(): find_trace(name.strip()) for name in text.split(",")}


def _print(report: dict[str, Any]) -> None:
    console = Console()
    for mbit_s, found in report["bandwidth"].items():
        robot = f"the robot has {report['robot_cores']:g} processors ({report['processor_limit']})"
        title = f"{report['model']}, link {mbit_s} (shaped by {report['shaping']}), {robot}"
        table = Table(
            "policy", "mean ms", "p50 ms", "p95 ms", "sent MB", "local", "where", "J (model)", "error", title=title
        )
        for policy, figures in found["systems"].items():
            latency = figures["latency_ms"]
            times = (f"{latency[key]:.1f}" for key in ("mean", "p50", "p95"))
            where = ", ".join(f"{count} {place}" for place, count in figures["where"].items())
            table.add_row(
                policy, *times, f"{figures['mb_per_frame']:.3f}", f"{figures['local_share']:.0%}", where,
                f"{figures['energy_j']:.2f}", f"{error['max']:.1e}" if (error := figures["output_error"]) else "n/a",
            )  # fmt: skip
        console.print(table)
