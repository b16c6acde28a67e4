# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The timeline's equations equal numbers worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from lowered import graph_of
from quantised import scales_of
from workloads import Branches, Chain, workload

from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.quantisation import int8_graph
from cacheinf_ros.graph import Model, ModelCard
from cacheinf_ros.offload.planning.partition_costs import Link
from cacheinf_ros.offload.planning.timeline import Conditions, Timeline, transfer_bytes
from cacheinf_ros.offload.planning.workload import Workload, tensor_bytes


def conditions(
    work: Workload,
    *,
    robot_ms: float = 20.0,
    server_ms: float = 10.0,
    active: float = 1.0,
    mbit_s: float = 1.0,
    transfer_ms: tuple[float, float] = (0.0, 0.0),
) -> Conditions:
    """Return conditions in which all operators take so many ms for all pixels; 1 Mbit/s is 125 bytes per ms."""
    table = np.tile(np.array(POINTS), (len(work.names), 1))
    shares = np.full(len(work.heights), active)
    return Conditions(
        link=Link(mbit_s=mbit_s, delay_ms=1.0),
        robot_ms=table * robot_ms,
        server_ms=table * server_ms,
        active_robot=shares,
        active_server=shares,
        robot_transfer_ms=transfer_ms[0],
        server_transfer_ms=transfer_ms[1],
    )


def test_all_at_one_machine() -> None:
    work = workload(Chain())
    timeline = Timeline(work, conditions(work))
    assert timeline.end(np.array([10, 10])) == pytest.approx(40.0)
    # up: 10 rows of 4 pixels with 3 bytes and a flag each, 64 beside them: 120 + 5 / 64 + 64 = 184.078 bytes, 1.473 ms
    # (the input's flags are compressed, to about a 64th)
    # down: 10 rows of 4 pixels with 4 bytes and a flag: 160 + 5 + 64 = 229 bytes, 1.832 ms
    times = timeline.times(np.array([0, 0]))
    assert (times.sent, times.received) == (pytest.approx(184.078125), pytest.approx(229))
    assert times.server == pytest.approx([1.472625 + 1 + 10, 1.472625 + 1 + 20])
    assert times.end == pytest.approx(1.472625 + 1 + 20 + 1.832 + 1)


def test_rows_are_shared() -> None:
    """The robot computes 6 rows, and the server 4, whose results it sends."""
    work = workload(Chain())
    times = Timeline(work, conditions(work)).times(np.array([6, 6]))
    up = (4 * 4 * 3 + 2 / 64 + 64) / 125
    down = (4 * 4 * 4 + 2 + 64) / 125
    assert times.robot == pytest.approx([12, 24])
    assert times.server == pytest.approx([up + 1 + 4, up + 1 + 8])
    assert times.end == pytest.approx(24)
    assert (times.sent, times.received) == (pytest.approx(112.03125), pytest.approx(130))
    faster = Timeline(work, conditions(work, robot_ms=5)).times(np.array([6, 6]))
    assert faster.end == pytest.approx(up + 1 + 8 + down + 1)


def test_neighbours_of_the_boundary_cross_both_ways() -> None:
    """The second operator reads one row beyond its own, so each machine sends one row, both at the same time."""
    work = workload(Chain(reach=1))
    times = Timeline(work, conditions(work)).times(np.array([5, 5]))
    up = (5 * 4 * 3 + 2.5 / 64 + 64) / 125
    row = (4 * 2 * 4 + 0.5 + 64) / 125
    assert times.robot == pytest.approx([10, 20])  # the server's row has arrived by 10
    server_a = up + 1 + 5
    assert times.server == pytest.approx([server_a, 10 + row + 1 + 5])  # it waits for the robot's row
    assert server_a < 10 + row + 1


def test_a_level_is_a_byte_on_the_wire() -> None:
    """In int8 inner tensors are levels whatever the floats' wire dtype is, but the result is not."""
    module = Chain(reach=1)
    model = Model(module=module, graph=graph_of(module, (10, 4)), card=ModelCard(name="chain", input_size=(10, 4)))
    work = Workload(lay_out(int8_graph(model.graph, scales_of(model))))
    assert work.is_levels.tolist() == [True, True, False]
    for value_bytes in (4.0, 2.0):
        found = dataclasses.replace(conditions(work), value_bytes=value_bytes)
        assert transfer_bytes(work, found)[1].tolist() == [4 * 3 + 0.5 / 64, 4 * 2 + 0.5, 4 * value_bytes + 0.5]
    assert tensor_bytes(work).tolist() == [10 * 4 * 3, 10 * 4 * 2, 10 * 4 * 4]


def test_what_crosses_inside_keeps_both_busy() -> None:
    """The machines share rows as in the test above, but each (un)packing takes the robot 3 ms and the server 7."""
    work = workload(Chain(reach=1))
    times = Timeline(work, conditions(work, transfer_ms=(3, 7))).times(np.array([5, 5]))
    up = (5 * 4 * 3 + 2.5 / 64 + 64) / 125
    row = (4 * 2 * 4 + 0.5 + 64) / 125
    server_a = up + 1 + 5
    assert times.transfers == 2
    assert times.robot == pytest.approx([10, max(10 + 3, server_a + 7 + row + 1) + 3 + 10])
    assert times.server == pytest.approx([server_a, max(server_a + 7, 10 + 3 + row + 1) + 7 + 5])
    assert (times.robot_busy, times.server_busy) == (pytest.approx(20), pytest.approx(10))


def test_input_and_results_are_no_crossings_inside() -> None:
    work = workload(Chain())
    for rows in ([10, 10], [0, 0], [6, 6]):
        found = [
            Timeline(work, conditions(work, transfer_ms=took)).times(np.array(rows))
            for took in ((0.0, 0.0), (3.0, 7.0))
        ]
        assert [times.transfers for times in found] == [0, 0]
        assert found[0].end == found[1].end


def test_sending_waits_for_what_is_being_sent() -> None:
    """The input goes up to the server first, and only then the robot's row of a."""
    work = workload(Chain(reach=1))
    times = Timeline(work, conditions(work, robot_ms=0.0, mbit_s=0.1)).times(np.array([5, 5]))
    up, row = (5 * 4 * 3 + 2.5 / 64 + 64) / 12.5, (4 * 2 * 4 + 0.5 + 64) / 12.5
    assert times.server == pytest.approx([up + 1 + 5, max(up + 1 + 5, up + row + 1) + 5])


def test_branches_meet() -> None:
    """The robot computes b and the server c, for which it needs all of a; the robot's maximum waits for c."""
    work = workload(Branches())
    rows = dict.fromkeys(work.names, 10)
    c = work.names[2]
    rows[c] = 0
    times = Timeline(work, conditions(work)).times(np.array([rows[name] for name in work.names]))
    up = (10 * 4 * 2 * 4 + 5 + 64) / 125
    down = (10 * 4 * 4 + 5 + 64) / 125
    assert times.robot[:2] == pytest.approx([20, 40])
    assert times.server[2] == pytest.approx(20 + up + 1 + 10)
    assert times.transfers == 2  # a on its way up, c on its way down
    assert times.end == pytest.approx(max(40, 20 + up + 1 + 10 + down + 1) + 20)


def test_only_what_is_active_costs_and_crosses() -> None:
    """A tenth is active: costs are linear between the points at which times are known."""
    work = workload(Chain())
    times = Timeline(work, conditions(work, active=0.1)).times(np.array([0, 0]))
    up, down = (12 + 5 / 64 + 64) / 125, (16 + 5 + 64) / 125
    assert times.end == pytest.approx(up + 1 + 2 + down + 1)


def test_active_shares_of_a_window() -> None:
    """A quarter of 10x4 pixels, 5x2, changes; the 3x3 window makes that 7x4 of the second operator's output."""
    active = workload(Chain(reach=1)).active_at(0.75)
    assert active[0] == pytest.approx(0.25)
    assert workload(Chain(reach=1)).active_at(0.0) == pytest.approx([1, 1, 1])
    assert workload(Chain(reach=1)).active_at(1.0) == pytest.approx([0, 0, 0])
