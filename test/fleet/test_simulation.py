# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Simulated fleets keep the promises of real ones."""

from __future__ import annotations

import math

import pytest

from cacheinf_ros.fleet.simulated_fleet import Measured, SimulatedFleet
from cacheinf_ros.fleet.simulation import simulate

pytest.importorskip("simpy")

MEASURED = Measured(frame_ms=(8.0, 10.0, 12.0), dense_ms=25.0, overhead_ms=(1.0, 2.0), start_ms=1000.0)


def test_nobody_waits_where_there_is_room() -> None:
    report = simulate(SimulatedFleet(robots=4, machines=2, measured=MEASURED, seconds=20.0, warm_s=10.0))
    assert report.shared_share == 1.0 and not report.refused
    assert 10.0 <= report.p95_ms <= 25.0
    assert report.busy == pytest.approx(4 * 2 * 0.010 / 4, rel=0.1)


def test_at_twice_the_load_that_fits_the_rest_is_refused_in_time() -> None:
    fits = round(0.8 * 2 / (20.0 * 0.010))
    fleet = SimulatedFleet(robots=2 * fits, machines=1, measured=MEASURED, hz=20.0, deadline_ms=150.0, seconds=20.0)
    report = simulate(fleet)
    assert fits / 2 <= len(report.refused) <= 1.5 * fits
    assert report.p95_ms <= 150.0
    assert report.late <= 0.01 * report.shared


def test_a_lost_machine_costs_a_robot_one_frame() -> None:
    fleet = SimulatedFleet(robots=6, machines=3, measured=MEASURED, fails_every_s=40.0, repaired_s=10.0)
    report = simulate(fleet)
    assert report.failures >= 2
    assert report.lost_by_failure and max(report.lost_by_failure) <= 1


def test_frames_of_robots_that_find_no_place_again_are_lost_too() -> None:
    """The only machine is repaired after the end, so no robot is served again."""
    fleet = SimulatedFleet(
        robots=3, machines=1, measured=MEASURED, fails_every_s=4.0, repaired_s=60.0, warm_s=0.5, seconds=20.0
    )
    report = simulate(fleet)
    assert report.failures == 1
    assert max(report.lost_by_failure) > 10


def test_a_fleet_that_shares_nothing_has_no_cost_in_machines() -> None:
    slow = Measured(frame_ms=(150.0,), dense_ms=300.0, overhead_ms=(1.0,))
    report = simulate(SimulatedFleet(robots=2, machines=1, measured=slow, deadline_ms=200.0, seconds=5.0))
    assert report.shared == 0 and math.isinf(report.machines_per_robot)
