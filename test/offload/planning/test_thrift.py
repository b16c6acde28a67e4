# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Of the ways to divide a frame that end about as soon, the one that costs the battery least is taken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import MIXED, outdated, surroundings

from cacheinf_ros.energy import PowerModel
from cacheinf_ros.offload.planning import Link, Scheduler, Thrift, Timeline, Times
from cacheinf_ros.offload.planning.plan_table import TRANSFER_MS
from cacheinf_ros.offload.planning.thrift import STAYS, lighter
from cacheinf_ros.offload_policy import OffloadPolicy

FEW = outdated(MIXED, 0.05)
POSITIVE = st.floats(0.01, 1000.0)
NONE = np.zeros(0)


def test_the_energy_of_a_frame_by_hand() -> None:
    """10 ms at 10 W, 20 kB at 1.5 W and 5 kB at 1 W over 8 Mbit/s, which takes 20 and 5 ms: 100 + 30 + 5 mJ."""
    times = Times(
        robot=NONE, server=NONE, end=60.0, robot_busy=6.0, server_busy=30.0, sent=20e3, received=5e3, transfers=2
    )
    power = PowerModel(idle_w=5.0, compute_w=10.0, transmit_w=1.5, receive_w=1.0)
    joules = Thrift(power=power).joules(times, beside_ms=3.0, transfer_ms=0.5, link=Link(mbit_s=8.0))
    assert joules == pytest.approx(0.135)


def test_a_choice_by_hand() -> None:
    costs, joules = [100.0, 109.0, 111.0], [3.0, 2.0, 1.0]
    assert Thrift(slower=0.0).choose(costs, joules, None) == 0
    assert Thrift(slower=0.1).choose(costs, joules, None) == 1
    assert Thrift(slower=0.2).choose(costs, joules, None) == 2
    assert Thrift(slower=0.1).choose(costs, [3.0, 2.0, 1.95], 2) == 2  # in use, and hardly too late
    assert Thrift(slower=0.1).choose(costs, [3.0, 2.0, 2.2], 2) == 1
    assert Thrift(slower=0.1).choose(costs, [2.05, 2.0, 1.0], 0) == 0


@given(ways=st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1), slower=st.floats(0.0, 2.0), data=st.data())
def test_no_way_is_much_too_late_or_costs_much_more_than_needed(
    ways: list[tuple[float, float]], slower: float, data: st.DataObject
) -> None:
    costs, joules = [way[0] for way in ways], [way[1] for way in ways]
    used = data.draw(st.none() | st.integers(0, len(ways) - 1))
    taken = Thrift(slower=slower).choose(costs, joules, used)
    most = (1 + slower) * min(costs)
    least = min(joule for cost, joule in ways if cost <= most)
    stays = 1.0 if taken != used else 1 / 0.95
    assert costs[taken] <= most * stays * (1 + 1e-9)
    assert joules[taken] <= least * stays * (1 + 1e-9)


def test_lighter_ways_can_be_executed() -> None:
    rows = MIXED.heights[1:]
    found = lighter(rows, MIXED.groups)
    assert found
    for each in found:
        MIXED.space.check(MIXED.partition_of(each))
        assert (each <= rows).all()


@pytest.mark.parametrize("mbit_s", [0.5, 5.0, 20.0, 200.0])
@pytest.mark.parametrize("power", [PowerModel(), PowerModel(compute_w=1.0, transmit_w=100.0)])
def test_the_choice_is_the_one_of_least_energy_that_is_soon_enough(mbit_s: float, power: PowerModel) -> None:
    """Times and energies of all ways to divide the frame are worked out anew."""
    around = surroundings(MIXED, 1, 1.2)
    everything, active = MIXED.heights[1:], MIXED.activity.shares(FEW.changed)
    line = Timeline(MIXED, around.conditions(mbit_s, active, active))
    for slower in (0.1, 0.5, 3.0):
        scheduler = Scheduler(MIXED, around, power=power)
        ways = list(scheduler.candidates(OffloadPolicy.CACHEINF, around, mbit_s, active))
        ways += lighter(min(ways, key=line.end), MIXED.groups)
        costs, joules = zip(*(spent(line.times(rows), power, mbit_s) for rows in ways), strict=True)
        least = min(joule for cost, joule in zip(costs, joules, strict=True) if cost <= (1 + slower) * min(costs))
        choice = scheduler.choose(OffloadPolicy.CACHEINF, mbit_s, around.delay_ms, FEW, slower=slower)
        rows = everything if choice.partition is None else MIXED.rows_of(choice.partition)
        cost, joule = spent(line.times(rows), power, mbit_s)
        assert cost <= (1 + slower) / STAYS * min(costs) + 1e-9
        assert joule <= least / STAYS + 1e-12


def spent(times: Times, power: PowerModel, mbit_s: float) -> tuple[float, float]:
    """Return a frame's milliseconds and joules; a transfer keeps the robot busy for a millisecond at first."""
    computing_ms = times.robot_busy + times.transfers * TRANSFER_MS
    sending_ms, receiving_ms = times.sent / (125 * mbit_s), times.received / (125 * mbit_s)
    watts = power.compute_w, power.transmit_w, power.receive_w
    return times.end, float(np.dot(watts, (computing_ms, sending_ms, receiving_ms))) / 1e3


def test_what_the_robot_does_beside_its_operators_counts() -> None:
    """Packing a frame for the server takes this robot long, so that alone it spends less."""
    around = surroundings(MIXED, 3, 20.0)
    free, busy = (Scheduler(MIXED, around) for _ in range(2))
    for _ in range(30):
        shared = busy.choose(OffloadPolicy.REMOTE, 200.0, 1.0, FEW)
        busy.observe_robot(shared, 500.0)
    choices = [each.choose(OffloadPolicy.CACHEINF, 200.0, 1.0, FEW, slower=10.0) for each in (free, busy)]
    assert [choice.partition is None for choice in choices] == [False, True]


def test_a_server_that_is_no_faster_is_used_to_save_energy() -> None:
    around = surroundings(MIXED, 3, 0.9)
    soonest = Scheduler(MIXED, around).choose(OffloadPolicy.CACHEINF, 1.0, 5.0, FEW)
    assert soonest.partition is None
    saving = Scheduler(MIXED, around).choose(OffloadPolicy.CACHEINF, 1.0, 5.0, FEW, slower=10.0)
    assert saving.local_share < 0.5
    for policy in (OffloadPolicy.LOCAL, OffloadPolicy.REMOTE):  # what the user has chosen is not changed
        wanted = Scheduler(MIXED, around).choose(policy, 1.0, 5.0, FEW, slower=10.0)
        assert wanted.local_share == float(policy is OffloadPolicy.LOCAL)
