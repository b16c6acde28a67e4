# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A scheduler that cuts between layers only, and how our scheduler compares."""

from __future__ import annotations

import numpy as np
from workloads import MIXED, outdated, surroundings

from benchmarks.offload.layer_cuts import LayerCuts
from cacheinf_ros.engine import Outdated
from cacheinf_ros.offload.planning import Scheduler
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload_policy import OffloadPolicy

AROUND = surroundings(MIXED, 3, 20.0)
FEW = outdated(MIXED, 0.05)
NOTHING = Outdated(**dict.fromkeys(("changed", "robot", "server"), np.zeros_like(FEW.changed)))


def layer_cuts() -> LayerCuts:
    return LayerCuts(MIXED, AROUND, only_layers=lambda: True)


def test_a_cut_can_be_executed() -> None:
    scheduler = layer_cuts()
    for mbit_s in (0.05, 5.0, 500.0):
        choice = scheduler.choose(OffloadPolicy.CACHEINF, mbit_s, 1.0, FEW)
        assert choice.predicted_ms > 0
        if choice.partition is not None:
            MIXED.space.check(choice.partition)


def test_ours_is_predicted_to_be_no_slower() -> None:
    table = solve(MIXED, AROUND, (0.5, 5.0, 50.0), (0.0, 0.9), time_limit_s=2.0)
    for mbit_s in (0.05, 0.7, 8.0, 300.0):
        ours = Scheduler(MIXED, AROUND, table).choose(OffloadPolicy.CACHEINF, mbit_s, 1.0, FEW).predicted_ms
        other = layer_cuts().choose(OffloadPolicy.CACHEINF, mbit_s, 1.0, FEW).predicted_ms
        assert ours <= other / 0.95 + 1e-6


def test_other_policies_are_as_they_were() -> None:
    choice = layer_cuts().choose(OffloadPolicy.REMOTE, 5.0, 1.0, FEW)
    assert choice.partition is not None and choice.local_share == 0


def test_a_frame_in_which_nothing_changes_does_not_decide_where_others_are_cut() -> None:
    scheduler = layer_cuts()
    for _ in range(100):
        choice = scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, FEW)
        assert choice.partition is not None
        still = scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, NOTHING)
        assert still.partition is not None
