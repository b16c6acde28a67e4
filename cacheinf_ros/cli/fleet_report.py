# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tables about fleets: running, demonstrated and simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from cacheinf_ros.cli.output_files import writing
from cacheinf_ros.fleet import FleetStatus
from cacheinf_ros.fleet.simulated_fleet import SimulationReport

if TYPE_CHECKING:  # the help must work where ROS is not installed
    from cacheinf_ros.harness.fleet_demo_report import DemoReport

_SHORT = 12  # characters of a machine's name that are shown


def load_table(status: FleetStatus) -> Table:
    """Return a table of how busy machines are."""
    table = Table("machine", "cores", "sessions", "processes", "busy", "slowest p95, ms", "", title="machines")
    for each in status.machines:
        table.add_row(
            each.name[:_SHORT], f"{each.cores:g}", f"{each.sessions}", f"{each.hosts}", f"{100 * each.busy:.0f} %",
            f"{each.p95_ms:.1f}", "draining" if each.is_draining else "",
        )  # fmt: skip
    return table


def status_tables(status: FleetStatus) -> list[Table]:
    """Return tables of everything in a fleet: machines, gateways, sessions and counts."""
    gateways = Table("gateway", "sessions", "models", "silent, s", "frames", "p95, ms", title="gateways")
    for gateway in status.gateways:
        gateways.add_row(
            gateway.name, f"{gateway.sessions}", f"{len(gateway.networks)}", f"{gateway.silent_s:.1f}",
            f"{gateway.counts.get('frames', 0):.0f}", f"{gateway.counts.get('frame_p95_ms', 0):.1f}",
        )  # fmt: skip
    sessions = Table("session", "gateway", "machine", "frame, ms", "every, ms", "priority", "", title="sessions")
    for session in status.sessions:
        sessions.add_row(
            session.name, session.gateway, session.machine[:_SHORT] or "none", f"{session.mean_ms:.1f}",
            f"{session.period_ms:.0f}", f"{session.priority}", "moving" if session.is_moving else "",
        )  # fmt: skip
    counts = Table("what", "how often", title="so far")
    for name, count in status.counts.items():
        counts.add_row(name, f"{count}")
    return [load_table(status), gateways, sessions, counts]


def demo_tables(report: DemoReport) -> list[Table]:
    """Return tables of what became of the robots' frames in a demo."""
    phases = list(report.latencies_ms)
    robots = Table("robot", *(phase.value for phase in phases), title="frames shared + alone + shared late")
    for number, robot in enumerate(report.robots):
        cells = (f"{robot.shared[phase]} + {robot.alone[phase]} + {robot.late[phase]}" for phase in phases)
        robots.add_row(f"{number}", *cells)
    robots.add_section()
    for quantile in (50, 95, 100):
        values = (report.latencies_ms[phase] for phase in phases)
        robots.add_row(f"p{quantile}, ms", *(f"{np.percentile(each, quantile):.0f}" if each else "" for each in values))
    counts = Table("what", "how often", title="fleet")
    for fate, count in report.fates.items():
        counts.add_row(f"frames: {fate.value}", f"{count}")
    counts.add_row("results that equal dense in every bit", f"{report.same_bits}")
    for gateway, sessions in report.gateways.items():
        counts.add_row(f"sessions of {gateway}", f"{sessions}")
    for name, count in report.counts.items():
        counts.add_row(name, f"{count}")
    required = Table("required", "found", "at most", "", title=f"{report.sent} frames")
    for each in report.requirements:
        is_met = "met" if each.is_met else "[red]not met[/]"
        required.add_row(each.what, f"{each.found:g}", f"{each.limit:g}", is_met)
    return [robots, counts, required]


def draw_simulations(reports: Sequence[SimulationReport], out: Path) -> None:
    """Draw the 95th percentile and the machines per robot by the number of robots, as a PNG or SVG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    latency, cost = figure.subplots(1, 2)
    robots = [each.robots for each in reports]
    for quantile in (50, 95, 99):
        values = [np.percentile(each.latencies_ms, quantile) if each.latencies_ms else np.nan for each in reports]
        latency.plot(robots, values, "o-", label=f"p{quantile}")
    latency.set(xscale="log", xlabel="robots", ylabel="shared frames, ms", ylim=(0, None))
    latency.legend()
    cost.plot(robots, [each.machines_per_robot if each.shared else np.nan for each in reports], "o-")
    cost.set(xscale="log", xlabel="robots", ylabel="machines per robot served", ylim=(0, None))
    with writing(out):
        figure.savefig(out, dpi=110)


def simulation_table(reports: Sequence[SimulationReport]) -> Table:
    """Return a table with one row for each simulated fleet."""
    table = Table(
        "robots", "machines", "shared", "p50", "p95, ms", "refused", "failures", "lost at most", "moves", "busy",
        "machines a robot", title="simulated fleets",
    )  # fmt: skip
    for each in reports:
        p50 = np.median(each.latencies_ms) if each.latencies_ms else np.nan
        table.add_row(
            f"{each.robots}", f"{each.machines}", f"{100 * each.shared_share:.2f} %", f"{p50:.1f}",
            f"{each.p95_ms:.1f}", f"{len(each.refused)}", f"{each.failures}",
            f"{max(each.lost_by_failure, default=0)}", f"{each.moves}", f"{100 * each.busy:.0f} %",
            f"{each.machines_per_robot:.4f}",
        )  # fmt: skip
    return table
