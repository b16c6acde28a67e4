# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Reports in /diagnostics what a frame costs the robot's battery, and whether that is measured or modelled."""

from __future__ import annotations

import time

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from cacheinf_ros.energy import EnergyAccount, EnergyMeter, NoMeter, PowerModel, find_meter
from cacheinf_ros.pipeline import Health

_PERIOD_S = 1.0


def announced_meter(node: Node, of: str) -> EnergyMeter | None:
    """Return the machine's energy meter, if it has one, and log that or what is missing."""
    meter = find_meter()
    if isinstance(meter, NoMeter):
        node.get_logger().info(f"{of}: modelled, no meter: {meter.reason}")
        return None
    node.get_logger().info(f"{of}: measured by {meter.name}")
    return meter


def reported_energy(node: Node, model: PowerModel, health: Health) -> EnergyAccount:
    """Make an account of the energy spent on frames; a timer settles it, apart from the thread that works on them."""
    account = EnergyAccount(model, announced_meter(node, "energy"))

    def report() -> None:
        energy = account.settle(time.monotonic())
        if energy is not None:
            health.note("energy_j", f"{energy.joules:.4g}")
            health.note("energy_kind", energy.kind.value)

    node.create_timer(_PERIOD_S, report, clock=Clock(clock_type=ClockType.STEADY_TIME))
    return account
