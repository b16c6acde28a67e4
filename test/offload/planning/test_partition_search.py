# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Schedules keep the constraints, and are never worse than simple ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitions import nearest
from workloads import MIXED, efficient, mixed, outdated, surroundings

from cacheinf_ros.engine import Side
from cacheinf_ros.offload.planning import Scheduler
from cacheinf_ros.offload.planning.minimum_cut import dnn_surgery
from cacheinf_ros.offload.planning.partition_search import search
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload.planning.timeline import Timeline
from cacheinf_ros.offload.planning.workload import Workload
from cacheinf_ros.offload_policy import OffloadPolicy


@settings(max_examples=20)
@given(
    make=st.sampled_from([efficient, mixed]),
    seed=st.integers(0, 1000),
    speedup=st.sampled_from([0.5, 3.0, 20.0]),
    mbit_s=st.sampled_from([0.5, 8.0, 100.0]),
    robot_reuse=st.sampled_from([0.0, 0.9]),
    server_reuse=st.sampled_from([0.0, 0.9]),
)
def test_never_worse_than_simple_ones(
    make: Callable[[], Workload], seed: int, speedup: float, mbit_s: float, robot_reuse: float, server_reuse: float
) -> None:
    work = make()
    found = surroundings(work, seed, speedup).conditions(mbit_s, *map(work.active_at, (robot_reuse, server_reuse)))
    timeline, cut = Timeline(work, found), dnn_surgery(work, found)
    rows = search(work, timeline, [cut], time_limit_s=0.05)
    work.space.check(work.partition_of(rows))
    work.space.check(work.partition_of(cut))
    whole = work.heights[1:]
    for simple in (whole, np.zeros_like(whole), cut):
        assert timeline.end(rows) <= timeline.end(simple)


def test_a_table_is_good_between_its_points() -> None:
    around = surroundings(MIXED, 1, 5.0)
    table = solve(MIXED, around, (1.0, 10.0, 100.0), (0.0, 0.9), time_limit_s=2.0)
    for mbit_s, reuse in ((0.1, 0.0), (3.0, 0.5), (500.0, 0.99)):
        frame = outdated(MIXED, 1 - reuse)
        choice = Scheduler(MIXED, around, table).choose(OffloadPolicy.CACHEINF, mbit_s, 1.0, frame)
        partition, end = choice.partition or MIXED.space.everything_at(Side.ROBOT), choice.predicted_ms
        MIXED.space.check(partition)
        rows = MIXED.rows_of(partition)
        active = MIXED.activity.shares(frame.changed)
        timeline = Timeline(MIXED, around.conditions(mbit_s, active, active))
        assert end == pytest.approx(timeline.end(rows))
        assert end <= 1.15 * timeline.end(search(MIXED, timeline, time_limit_s=0.3))


def test_crossings_that_the_timeline_counts_are_those_that_happen() -> None:
    """The bytes are compared with those of the engine's own list of transfers."""
    rng = np.random.default_rng(0)
    around = surroundings(MIXED, 2, 5.0)
    found = around.conditions(8.0, MIXED.active_at(0.0), MIXED.active_at(0.0))
    names = dict(zip(MIXED.names, range(1, len(MIXED.heights)), strict=True))
    for _ in range(20):
        shares = dict(zip(MIXED.names, rng.random(len(MIXED.names)).tolist(), strict=True))
        partition = nearest(MIXED.space, shares)
        times = Timeline(MIXED, found).times(MIXED.rows_of(partition))
        bytes_sent = {"robot": 0.0, "server": 0.0}
        for crossing in MIXED.space.transfers(partition):
            tensor = names.get(crossing.tensor, 0)
            flags = MIXED.row_pixels[tensor] / (8 if tensor else 8 * 64)
            per_row = MIXED.row_values[tensor] * (4 if tensor else 1) + flags
            first, last = crossing.rows
            bytes_sent[crossing.to.value] += (last - first) * per_row + 64
        assert (times.sent, times.received) == pytest.approx((bytes_sent["server"], bytes_sent["robot"]))
