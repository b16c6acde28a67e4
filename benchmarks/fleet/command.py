# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench fleet``: the gateway's overhead, and how well fleets are simulated."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.fleet.admission import AdmissionReport, admission
from benchmarks.fleet.own_gateway import ENGINE, own_gateway
from benchmarks.fleet.replayed_robot import InProcess, Recording, ReplayedRobot, record
from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import JsonFile
from cacheinf_ros.cli.output_files import checked_file
from cacheinf_ros.config import parse_size
from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.fleet.simulated_fleet import Measured, SimulatedFleet
from cacheinf_ros.fleet.simulation import simulate
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline.node_configs import ModelConfig

_RECORDED = 40  # frames
_WARM = 10
_QUANTILES = (50, 95)
_NO_DEADLINE_MS = 5000.0
_ROUNDS = 5  # of a fleet, each with other phases: with some phases all robots film at once
_SIMULATED = 4  # times as long as the real fleet


def fleet(
    model: Annotated[str, typer.Option("--model", "-m", help="What is computed.")] = "scenenet",
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Of the model's input.")] = "480x640",
    share: Annotated[float, typer.Option(help="Of the picture's blocks that change with each frame.")] = 0.12,
    frames: Annotated[int, typer.Option(min=10, help="For the overhead, of each way.")] = 200,
    robots: Annotated[str, typer.Option(help="Of the real fleets, separated by commas.")] = "2,4,8",
    rate: Annotated[float, typer.Option(help="Images per second of each.")] = 2.0,
    seconds: Annotated[float, typer.Option(help="Of each real fleet.")] = 30.0,
    cores: Annotated[float, typer.Option(help="Of this machine, all of them together.")] = 2.0,
    json_file: JsonFile = None,
    measured_file: Annotated[
        Path | None,
        typer.Option(
            "--measured", metavar="FILE", help="Write what simulations draw from there.", callback=checked_file
        ),
    ] = None,
) -> None:
    """Measure what a gateway adds to a shared frame, and compare fleets of a few robots with simulated ones."""
    loaded = load_model(model, input_size=parse_size(size))
    config = ModelConfig(model=model, input_size=size)
    recording = record(loaded, ENGINE, _RECORDED, share)
    sent_mb = float(np.median([len(start) for start in recording.starts[1:]])) / 1e6
    with own_gateway(loaded, config, cores, FleetRules(standby=False, most_busy=0.95)) as gateway:
        counts = [int(count) for count in robots.split(",")]
        joined = _Joined.of(gateway, max(counts), loaded, recording, rate)
        overhead = _overhead(loaded, recording, joined.robots[0], frames)
        measured = _measured(joined, rate, seconds)
        rows = [_compared(joined.robots[:count], measured, rate, seconds, cores) for count in counts]
    with own_gateway(loaded, config, cores, FleetRules(standby=False)) as gateway:
        busy_ms = float(np.mean(measured.frame_ms))
        admitted = admission(gateway, Identity.of(loaded), recording, busy_ms=busy_ms, cores=cores, seconds=seconds / 2)
    console = Console()
    console.print(f"a frame sends {sent_mb:.3f} MB")
    for table in _tables(overhead, rows, admitted):
        console.print(table)
    figures = {"sent_mb": sent_mb, "overhead": _quantiles(overhead), "fleets": rows, "admission": asdict(admitted)}
    write_report(json_file, figures)
    own = {
        "frame_ms": list(measured.frame_ms), "dense_ms": measured.dense_ms,
        "overhead_ms": list(measured.overhead_ms), "start_ms": measured.start_ms,
    }  # fmt: skip
    write_report(measured_file, own)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """Robots with a process for each, and how long one took to start and to compute a frame that is new everywhere."""

    robots: list[ReplayedRobot]
    start_ms: float
    dense_ms: float

    @classmethod
    def of(cls, gateway: FleetGateway, count: int, model: Model, recording: Recording, rate: float) -> _Joined:
        robots = [ReplayedRobot(f"replayed{number}", Identity.of(model), recording) for number in range(count)]
        start_ms = [1e3 * robot.join(gateway) for robot in robots]
        # they film at their rate: the fleet would have no room for robots that do not pause
        _film(robots, rate, _WARM / rate, _phases(count, 0))
        return cls(
            robots=robots, start_ms=float(np.median(start_ms)),
            dense_ms=float(np.median([robot.busy_ms[0] for robot in robots])),
        )  # fmt: skip


def _phases(robots: int, number: int) -> list[float]:
    """Return when each robot films its first frame of a round, as a share of the period."""
    return np.random.default_rng((robots, number)).uniform(size=robots).tolist()


def _film(robots: Sequence[ReplayedRobot], rate: float, seconds: float, phases: Sequence[float]) -> None:
    """Let all robots film, each from its phase of the first period on; :class:`LinkError` where one loses its place."""
    begin_s = time.monotonic() + 0.2
    threads = [
        threading.Thread(target=robot.film, args=(rate, seconds, begin_s + phase / rate))
        for robot, phase in zip(robots, phases, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for robot in robots:
        if robot.ended or robot.late:
            raise LinkError(f"{robot.name}: {robot.ended or 'frames were not done in time'}")


def _overhead(model: Model, recording: Recording, robot: ReplayedRobot, frames: int) -> dict[str, list[float]]:
    """Measure the milliseconds of frames in this process and in the fleet, in turns, and of computing them alone."""
    own = ReplayedRobot("own", Identity.of(model), recording)
    own.session = InProcess("own", model, ENGINE, own.receive)
    own.greet()
    for _ in range(_WARM):
        own.frame()
    for each in (own, robot):
        each.forget_times()
    for number in range(frames):
        for each in (own, robot) if number % 2 else (robot, own):
            each.frame()
    own.session.close()
    return {
        "in_process": own.took_ms, "fleet": list(robot.took_ms), "in_process_busy": own.busy_ms,
        "fleet_busy": list(robot.busy_ms),
    }  # fmt: skip


def _measured(joined: _Joined, rate: float, seconds: float) -> Measured:
    """Measure the frames of a single robot at its rate: between frames others use the processor's cache."""
    robot = joined.robots[0]
    robot.forget_times()
    _film([robot], rate, seconds, _phases(1, 0))
    beside = np.maximum(0.0, np.array(robot.took_ms) - np.array(robot.busy_ms))
    return Measured(
        frame_ms=list(robot.busy_ms), dense_ms=joined.dense_ms, overhead_ms=beside.tolist(), start_ms=joined.start_ms
    )


def _compared(
    robots: list[ReplayedRobot], measured: Measured, rate: float, seconds: float, cores: float
) -> dict[str, float]:
    """Compare the quantiles of frame times of a real and a simulated fleet whose robots film at the same times."""
    for robot in robots:
        robot.forget_times()
    fleet = SimulatedFleet(
        robots=len(robots), machines=1, measured=measured, cores=cores, hz=rate, deadline_ms=_NO_DEADLINE_MS,
        seconds=_SIMULATED * seconds / _ROUNDS, rules=FleetRules(standby=False, most_busy=0.95),
    )  # fmt: skip
    rounds = []
    for number in range(_ROUNDS):
        phases = _phases(len(robots), number)
        _film(robots, rate, seconds / _ROUNDS, phases)
        rounds.append(simulate(replace(fleet, phases=phases, seed=number)))
    real = [took for robot in robots for took in robot.took_ms]
    simulated = [took for report in rounds for took in report.latencies_ms]
    busy = float(np.mean([report.busy for report in rounds]))
    of_each = [float(np.median(robot.took_ms)) for robot in robots]
    row: dict[str, float] = {
        "robots": len(robots), "frames": len(real), "busy": busy, "slowest_over_fastest": max(of_each) / min(of_each)
    }  # fmt: skip
    for quantile in _QUANTILES:
        row[f"real_p{quantile}_ms"] = float(np.percentile(real, quantile))
        row[f"simulated_p{quantile}_ms"] = float(np.percentile(simulated, quantile))
    return row


def _quantiles(overhead: dict[str, list[float]]) -> dict[str, float]:
    return {
        f"{name}_p{quantile}_ms": float(np.percentile(values, quantile))
        for name, values in overhead.items()
        for quantile in _QUANTILES
    }


def _tables(overhead: dict[str, list[float]], rows: list[dict[str, float]], admitted: AdmissionReport) -> list[Table]:
    ways = Table("", "p50, ms", "p95, ms", title="a shared frame")
    found = {
        name: [float(np.percentile(values, quantile)) for quantile in _QUANTILES] for name, values in overhead.items()
    }
    for name, values in found.items():
        ways.add_row(name.replace("_", " "), *(f"{value:.2f}" for value in values))
    added = np.subtract(found["fleet"], found["in_process"])
    ways.add_row("the fleet adds", *(f"{value:+.2f}" for value in added))
    fleets = Table(
        "robots", "frames", "real p50, p95, ms", "simulated p50, p95, ms", "p95 off by", "p50, slowest / fastest robot",
        title="real fleets",
    )  # fmt: skip
    for row in rows:
        off = row["simulated_p95_ms"] / row["real_p95_ms"] - 1
        fleets.add_row(
            f"{row['robots']:.0f}", f"{row['frames']:.0f}", f"{row['real_p50_ms']:.1f}, {row['real_p95_ms']:.1f}",
            f"{row['simulated_p50_ms']:.1f}, {row['simulated_p95_ms']:.1f}", f"{100 * off:+.0f} %",
            f"{row['slowest_over_fastest']:.2f}",
        )  # fmt: skip
    asked = Table(
        "asked",
        "fit",
        "served",
        "p95, ms",
        "deadline, ms",
        "refused within, s",
        "back after, s",
        title="twice the load",
    )
    asked.add_row(
        f"{admitted.asked}", f"{admitted.fit}", f"{admitted.served}", f"{admitted.p95_ms:.1f}",
        f"{admitted.deadline_ms:.0f}", f"{max(admitted.refused_s, default=0.0):.2f}", f"{admitted.return_s:.1f}",
    )  # fmt: skip
    return [ways, fleets, asked]
