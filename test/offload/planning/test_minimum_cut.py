# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The minimum cut equals the best of all cuts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workloads import Branches, Chain, workload

from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.offload.planning.minimum_cut import dnn_surgery
from cacheinf_ros.offload.planning.partition_costs import Link
from cacheinf_ros.offload.planning.timeline import Conditions, transfer_bytes
from cacheinf_ros.offload.planning.workload import Integers, Workload

WORK = [workload(Chain(reach=1)), workload(Branches())]


def cost(work: Workload, found: Conditions, at_robot: tuple[bool, ...]) -> float:
    """Return the cost that the cut minimises; infinite where something goes back to the robot."""
    total, crossing = 0.0, set()
    rate, delay = found.link.bytes_per_ms, found.link.delay_ms
    for i, here in enumerate(at_robot):
        total += float((found.robot_ms if here else found.server_ms)[i, -1])
        parents = work.reads.tensor[work.reads.first[i] : work.reads.first[i + 1]].tolist()
        for tensor in parents:
            parent_here = tensor == 0 or at_robot[tensor - 1]
            if here and not parent_here:
                return np.inf
            if not here and parent_here:
                crossing.add(tensor)
    up, down = (work.heights * row / rate for row in transfer_bytes(work, found))
    inside = found.robot_transfer_ms + found.server_transfer_ms
    total += sum(up[tensor] + delay + (inside if tensor > 0 else 0.0) for tensor in crossing)
    return float(total + sum(down[t] + delay for t in work.results.tolist() if not at_robot[t - 1]))


def conditions(
    work: Workload, robot: list[float], server: list[float], mbit_s: float, transfer_ms: float
) -> Conditions:
    shares, points = np.ones(len(work.heights)), np.array(POINTS)
    return Conditions(
        link=Link(mbit_s=mbit_s, delay_ms=0.5),
        robot_ms=np.outer(robot[: len(work.names)], points),
        server_ms=np.outer(server[: len(work.names)], points),
        active_robot=shares,
        active_server=shares,
        robot_transfer_ms=transfer_ms,
        server_transfer_ms=transfer_ms / 2,
    )


def sides(work: Workload, rows: Integers) -> tuple[bool, ...]:
    return tuple((rows == work.heights[1:]).tolist())


@settings(max_examples=50)
@given(
    which=st.sampled_from(WORK),
    robot=st.lists(st.floats(0.1, 20), min_size=4, max_size=4),
    server=st.lists(st.floats(0.1, 5), min_size=4, max_size=4),
    mbit_s=st.sampled_from([0.1, 0.5, 1.0, 5.0, 50.0]),
    transfer_ms=st.sampled_from([0.0, 0.3, 4.0]),
)
def test_nothing_is_better(
    which: Workload, robot: list[float], server: list[float], mbit_s: float, transfer_ms: float
) -> None:
    found = conditions(which, robot, server, mbit_s, transfer_ms)
    rows = dnn_surgery(which, found)
    assert set(rows.tolist()) <= {0, 10}
    least = min(cost(which, found, choice) for choice in itertools.product((True, False), repeat=len(which.names)))
    assert cost(which, found, sides(which, rows)) == pytest.approx(least, abs=0.02)
