# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf fleet``: runs a fleet on this machine, inspects a running one, and simulates larger ones."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.fleet_report import demo_tables, draw_simulations, load_table, simulation_table, status_tables
from cacheinf_ros.cli.options import JsonFile, with_options
from cacheinf_ros.cli.output_files import checked_folder, checked_picture
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.fleet import FleetRules
from cacheinf_ros.fleet.ray_cluster import RayCluster
from cacheinf_ros.fleet.simulated_fleet import Measured, SimulatedFleet
from cacheinf_ros.fleet.simulation import simulate

fleet = typer.Typer(help="Many robots on many machines, on Ray.", no_args_is_help=True)
Address = Annotated[
    str, typer.Option("--fleet", help="The cluster: ray://HOST:PORT, HOST:PORT, or auto for the one on this machine.")
]
_AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of ``cacheinf fleet demo``."""

    robots: Annotated[int, typer.Option(min=1, max=64, help="Robots, each a node with a camera.")] = 8
    gateways: Annotated[int, typer.Option(min=1, max=8, help="Server nodes that robots greet.")] = 2
    rate: Annotated[float, typer.Option(min=0.1, help="Images per second of each robot.")] = 2.0
    seconds: Annotated[float, typer.Option(min=2, help="Before a node is killed, and as long after that.")] = 15.0
    model: Annotated[str, typer.Option("--model", "-m", help="What the robots run.")] = "scenenet"
    source: Annotated[str, typer.Option(help="What their cameras see.")] = "scene:fixed?size=240x320"
    deadline_ms: Annotated[float, typer.Option(min=1, help="After which a robot computes a frame alone, ms.")] = 450.0
    cores: Annotated[float, typer.Option(min=0.1, help="That each of the two nodes claims to have.")] = 2.0
    planned: Annotated[
        int,
        typer.Option(min=0, help="Frames to be sent at the end while one node after the other is drained; 0: none."),
    ] = 100
    out: Annotated[Path, typer.Option(help="Folder for report.json and the nodes' logs.", callback=checked_folder)] = (
        Path("out/fleet")
    )


@fleet.command()
@with_options(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Kill a machine under robots that share a fleet, and check every result against dense execution.

    Starts a Ray cluster of two nodes on this machine, gateways, and robots as processes of their own. One Ray node is
    killed: each robot may compute one frame alone because of it. Then another node comes, and nodes are drained in
    turn: no frame may be lost. Exit code 1 where a requirement is not met.
    """
    from cacheinf_ros.harness import private_domain
    from cacheinf_ros.harness.fleet_demo import DemoConfig, run_demo

    given = asdict(options)
    out: Path = given.pop("out")
    config = DemoConfig(phase_s=given.pop("seconds"), **given)
    console = Console()
    with private_domain() as domain:
        report = run_demo(config, domain=domain, folder=out / "logs", progress=console.log)
    for table in demo_tables(report):
        console.print(table)
    write_report(out / "report.json", report.figures)
    if not all(each.is_met for each in report.requirements):
        console.print(f"the nodes' logs are in {out / 'logs'}")
        raise typer.Exit(1)


@fleet.command()
def status(address: Address = _AUTO) -> None:
    """Show machines, gateways and sessions."""
    with closing(RayCluster(address)) as cluster:
        for table in status_tables(cluster.status()):
            Console().print(table)


@fleet.command()
def load(address: Address = _AUTO, watch: Annotated[bool, typer.Option(help="Until Ctrl-C.")] = False) -> None:
    """Show how busy each machine is, and what its slowest frames are predicted to take."""
    import time

    with closing(RayCluster(address)) as cluster:
        while True:
            Console().print(load_table(cluster.status()))
            if not watch:
                break
            time.sleep(1.0)


@fleet.command()
def drain(
    machine: Annotated[str, typer.Argument(help="Its name in `cacheinf fleet status`, or how that begins.")],
    address: Address = _AUTO,
    undo: Annotated[bool, typer.Option("--undo", help="Use the machine again.")] = False,
) -> None:
    """Move all sessions away from a machine, without a frame being lost; it may be stopped when it has none."""
    with closing(RayCluster(address)) as cluster:
        names = [each.name for each in cluster.status().machines if each.name.startswith(machine)]
        if len(names) != 1:
            raise ConfigError(f"{len(names)} machines begin with {machine!r}: `cacheinf fleet status` lists them")
        cluster.drain(names[0], is_wanted=not undo)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """Options of ``cacheinf fleet simulate``."""

    robots: Annotated[str, typer.Option(help="How many, separated by commas.")] = "10,100,1000"
    robots_per_machine: Annotated[float, typer.Option(min=0.1, help="Machines follow from that.")] = 10.0
    machines: Annotated[int, typer.Option(min=0, help="How many; 0: as --robots-per-machine says.")] = 0
    measured: Annotated[Path | None, typer.Option(help="What `cacheinf bench fleet --measured` has written.")] = None
    frame_ms: Annotated[float, typer.Option(min=0.01, help="Of a frame on a core, without --measured.")] = 20.0
    cores: Annotated[int, typer.Option(min=1, help="Of a machine.")] = 2
    rate: Annotated[float, typer.Option(min=0.01, help="Images per second of each robot.")] = 2.0
    deadline_ms: Annotated[float, typer.Option(min=1, help="After which a robot computes a frame alone.")] = 200.0
    seconds: Annotated[float, typer.Option(min=1, help="Of simulated time, after a warm start.")] = 120.0
    fails_every_s: Annotated[float, typer.Option(min=0, help="Mean time between a machine's failures; 0: none.")] = 0.0
    sessions_per_process: Annotated[int, typer.Option(min=1, help="As a rule; more after failures.")] = 1
    seed: Annotated[int, typer.Option(help="Of all that is random.")] = 0
    json_file: JsonFile = None
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw them there, as PNG or SVG.", callback=checked_picture)
    ] = None


@fleet.command(name="simulate")
@with_options(SimulateOptions)
def simulate_command(options: SimulateOptions) -> None:
    """Simulate fleets of any size with the placement of real ones."""
    reports = []
    for robots in _counts(options.robots):
        machines = options.machines or max(1, round(robots / options.robots_per_machine))
        found = simulate(
            SimulatedFleet(
                robots=robots, machines=machines, measured=_measured(options), cores=options.cores, hz=options.rate,
                deadline_ms=options.deadline_ms, seconds=options.seconds, fails_every_s=options.fails_every_s,
                rules=FleetRules(sessions_per_host=options.sessions_per_process), seed=options.seed,
            )
        )  # fmt: skip
        reports.append(found)
    Console().print(simulation_table(reports))
    if options.plot is not None:
        draw_simulations(reports, options.plot)
    if options.json_file is not None:
        rows = [
            {
                "robots": each.robots, "machines": each.machines, "shared": each.shared_share,
                "p95_ms": each.p95_ms if each.shared else None,
                "refused": len(each.refused), "failures": each.failures, "moves": each.moves, "busy": each.busy,
                "late": each.late, "alone": each.alone, "most_lost": max(each.lost_by_failure, default=0),
                "machines_per_robot": each.machines_per_robot if each.shared else None,
            }
            for each in reports
        ]  # fmt: skip
        write_report(options.json_file, rows)


def _counts(text: str) -> list[int]:
    """Read how many robots there are in each simulated fleet."""
    try:
        counts = [int(each) for each in text.split(",")]
    except ValueError:
        counts = []
    if min(counts, default=0) < 1:
        raise ConfigError(f"--robots {text!r}: give numbers from 1 on, separated by commas")
    return counts


def _measured(options: SimulateOptions) -> Measured:
    if options.measured is not None:
        try:
            return Measured(**json.loads(options.measured.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(
                f"--measured {options.measured} cannot be read: {error}; `cacheinf bench fleet --measured` writes it"
            ) from None
    drawn = np.random.default_rng(options.seed).lognormal(np.log(options.frame_ms), 0.25, 500)
    return Measured(frame_ms=drawn.tolist(), dense_ms=2 * options.frame_ms, overhead_ms=(1.0, 2.0, 3.0))
