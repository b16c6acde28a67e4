# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench fleet``: the gateway's overhead, and how well fleets are simulated."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.fleet.replayed_robot import InProcess, Recording, ReplayedRobot, record
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogServerConfig
from cacheinf_ros.catalog.serving.partitioned_models import SplitModels
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.fleet.host import HostSetting
from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.fleet.ray_cluster import OwnMachines, RayCluster
from cacheinf_ros.fleet.simulation import Measured, SimulatedFleet, simulate
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline.node_configs import ModelConfig

_ENGINE = EngineConfig(mode=Mode.EXACT, threads=1)
_RECORDED = 40  # frames
_WARM = 10
_QUANTILES = (50, 95)
_NO_DEADLINE_MS = 5000.0


def fleet(
    model: Annotated[str, typer.Option("--model", "-m", help="What is computed.")] = "scenenet",
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Of the model's input.")] = "480x640",
    share: Annotated[float, typer.Option(help="Of the picture's blocks that change with each frame.")] = 0.12,
    frames: Annotated[int, typer.Option(min=10, help="For the overhead, of each way.")] = 200,
    robots: Annotated[str, typer.Option(help="Of the real fleets, separated by commas.")] = "2,4,8",
    rate: Annotated[float, typer.Option(help="Images per second of each.")] = 4.0,
    seconds: Annotated[float, typer.Option(help="Of each real fleet.")] = 8.0,
    cores: Annotated[float, typer.Option(help="Of this machine, all of them together.")] = 2.0,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there.")] = None,
    measured_file: Annotated[
        Path | None, typer.Option("--measured", metavar="FILE", help="Write what simulations draw from there.")
    ] = None,
) -> None:
    """Measure what a gateway adds to a shared frame, and compare fleets of a few robots with simulated ones."""
    loaded = load_model(model, input_size=parse_size(size))
    recording = record(loaded, _ENGINE, _RECORDED, share)
    sent_mb = float(np.median([len(start) for start in recording.starts[1:]])) / 1e6
    with _gateway(loaded, ModelConfig(model=model, input_size=size), cores) as (gateway, started_ms):
        counts = [int(count) for count in robots.split(",")]
        fleet_robots = [_greeted(gateway, number, loaded, recording) for number in range(max(counts))]
        overhead = _overhead(loaded, recording, fleet_robots[0], frames)
        measured = _measured(fleet_robots[0], overhead, started_ms())
        rows = [_compared(fleet_robots[:count], measured, rate, seconds, cores) for count in counts]
    console = Console()
    console.print(f"a frame sends {sent_mb:.3f} MB")
    for table in _tables(overhead, rows):
        console.print(table)
    if json_file is not None:
        figures = {"sent_mb": sent_mb, "overhead": _quantiles(overhead), "fleets": rows}
        json_file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if measured_file is not None:
        own = {
            "frame_ms": list(measured.frame_ms), "dense_ms": measured.dense_ms,
            "overhead_ms": list(measured.overhead_ms), "start_ms": measured.start_ms,
        }  # fmt: skip
        measured_file.write_text(json.dumps(own) + "\n", encoding="utf-8")


@contextmanager
def _gateway(model: Model, config: ModelConfig, cores: float) -> Iterator[tuple[FleetGateway, Any]]:
    """A gateway to a Ray cluster on this machine, and what it took to start the first process."""
    machines = OwnMachines(1, cores)
    began = time.monotonic()

    def setting(asked: Identity) -> HostSetting:
        return HostSetting(asked=asked, model=config, catalogs=CatalogServerConfig(), engine=_ENGINE)

    try:
        rules = FleetRules(standby=False, most_busy=0.95)
        cluster = RayCluster(machines.address, rules)
        gateway = FleetGateway(cluster, SplitModels(model, ()), setting, lambda text: None, rules)
        first: list[float] = []

        def started_ms() -> float:
            first.append(1e3 * (time.monotonic() - began))
            return first[0]

        yield gateway, started_ms
        gateway.close()
    finally:
        machines.close()


def _greeted(gateway: FleetGateway, number: int, model: Model, recording: Recording) -> ReplayedRobot:
    robot = ReplayedRobot(f"replayed{number}", Identity.of(model), recording)
    robot.session = gateway.session(robot.name, robot.receive, lambda complaint: None)
    threading.Thread(target=robot.session.serve, daemon=True).start()
    robot.greet()
    for _ in range(_WARM):
        robot.frame()
    return robot


def _overhead(model: Model, recording: Recording, robot: ReplayedRobot, frames: int) -> dict[str, list[float]]:
    """Milliseconds of frames in this process and in the fleet, in turns; and what the process that computed took."""
    own = ReplayedRobot("own", Identity.of(model), recording)
    own.session = InProcess("own", model, _ENGINE, own.receive)
    own.greet()
    for _ in range(_WARM):
        own.frame()
    for each in (own, robot):
        each.took_ms.clear()
        each.busy_ms.clear()
    for number in range(frames):
        for each in (own, robot) if number % 2 else (robot, own):
            each.frame()
    own.session.close()
    return {
        "in_process": own.took_ms, "fleet": list(robot.took_ms), "in_process_busy": own.busy_ms,
        "fleet_busy": list(robot.busy_ms),
    }  # fmt: skip


def _measured(robot: ReplayedRobot, overhead: dict[str, list[float]], start_ms: float) -> Measured:
    beside = np.array(overhead["fleet"]) - np.array(overhead["fleet_busy"])
    return Measured(
        frame_ms=overhead["fleet_busy"], dense_ms=2 * float(np.percentile(overhead["fleet_busy"], 95)),
        overhead_ms=[max(0.0, each) for each in beside.tolist()], start_ms=start_ms,
    )  # fmt: skip


def _compared(
    robots: list[ReplayedRobot], measured: Measured, rate: float, seconds: float, cores: float
) -> dict[str, float]:
    """A real fleet and a simulated one, by the quantiles of what frames took."""
    for robot in robots:
        robot.took_ms.clear()
        robot.busy_ms.clear()
    begin_s = time.monotonic() + 0.2
    gap_s = np.random.default_rng(len(robots)).uniform(0, 1 / rate, len(robots))
    threads = [
        threading.Thread(target=robot.film, args=(rate, seconds, begin_s + gap))
        for robot, gap in zip(robots, gap_s.tolist(), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [took for robot in robots for took in robot.took_ms]
    simulated = simulate(
        SimulatedFleet(
            robots=len(robots), machines=1, measured=measured, cores=cores, hz=rate, deadline_ms=_NO_DEADLINE_MS,
            seconds=20 * seconds, rules=FleetRules(standby=False, most_busy=0.95),
        )
    )  # fmt: skip
    row: dict[str, float] = {"robots": len(robots), "frames": len(real), "busy": simulated.busy}
    for quantile in _QUANTILES:
        row[f"real_p{quantile}_ms"] = float(np.percentile(real, quantile))
        row[f"simulated_p{quantile}_ms"] = float(np.percentile(simulated.latencies_ms, quantile))
    return row


def _quantiles(overhead: dict[str, list[float]]) -> dict[str, float]:
    return {
        f"{name}_p{quantile}_ms": float(np.percentile(values, quantile))
        for name, values in overhead.items()
        for quantile in _QUANTILES
    }


def _tables(overhead: dict[str, list[float]], rows: list[dict[str, float]]) -> list[Table]:
    ways = Table("", "p50, ms", "p95, ms", title="a shared frame")
    found = {
        name: [float(np.percentile(values, quantile)) for quantile in _QUANTILES] for name, values in overhead.items()
    }
    for name, values in found.items():
        ways.add_row(name.replace("_", " "), *(f"{value:.2f}" for value in values))
    added = np.subtract(found["fleet"], found["in_process"])
    ways.add_row("the fleet adds", *(f"{value:+.2f}" for value in added))
    fleets = Table("robots", "frames", "real p50, p95, ms", "simulated p50, p95, ms", "p95 off by", title="real fleets")
    for row in rows:
        off = row["simulated_p95_ms"] / row["real_p95_ms"] - 1
        fleets.add_row(
            f"{row['robots']:.0f}", f"{row['frames']:.0f}", f"{row['real_p50_ms']:.1f}, {row['real_p95_ms']:.1f}",
            f"{row['simulated_p50_ms']:.1f}, {row['simulated_p95_ms']:.1f}", f"{100 * off:+.0f} %",
        )  # fmt: skip
    return [ways, fleets]
