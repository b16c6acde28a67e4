# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Policies do what they say, and small gains do not change a schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from workloads import MIXED, outdated, surroundings

from cacheinf_ros.offload.planning import Scheduler
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload_policy import OffloadPolicy

AROUND = surroundings(MIXED, 3, 20.0)
FEW = outdated(MIXED, 0.05)


@pytest.mark.parametrize("policy", OffloadPolicy)
def test_every_policy_gives_a_split_that_can_be_executed(policy: OffloadPolicy) -> None:
    scheduler = Scheduler(MIXED, AROUND)
    for mbit_s in (0.05, 5.0, 500.0):
        choice = scheduler.choose(policy, mbit_s, 1.0, FEW)
        assert choice.predicted_ms > 0
        if choice.partition is not None:
            MIXED.space.check(choice.partition)
        if policy is OffloadPolicy.LOCAL:
            assert choice.partition is None
        if policy is OffloadPolicy.REMOTE:
            assert choice.partition is not None
            assert choice.local_share == 0


def test_ours_is_predicted_to_be_no_slower_than_any() -> None:
    table = solve(MIXED, AROUND, (0.5, 5.0, 50.0), (0.0, 0.9), time_limit_s=2.0)
    for mbit_s in (0.05, 0.7, 8.0, 300.0):
        ours = Scheduler(MIXED, AROUND, table).choose(OffloadPolicy.CACHEINF, mbit_s, 1.0, FEW).predicted_ms
        for policy in (OffloadPolicy.LOCAL, OffloadPolicy.REMOTE):
            other = Scheduler(MIXED, AROUND).choose(policy, mbit_s, 1.0, FEW).predicted_ms
            assert ours <= other / 0.95 + 1e-6


def test_a_stale_cache_is_made_up_for_once() -> None:
    """The robot has long computed alone, but the far faster server takes over although it has no maps yet."""
    scheduler = Scheduler(MIXED, AROUND)
    nothing_there = outdated(MIXED, 0.05, server=1.0)
    assert scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, nothing_there).partition is not None


def test_it_stays_with_what_is_about_as_good() -> None:
    scheduler = Scheduler(MIXED, AROUND)
    chosen = []
    for i in range(40):  # around where the best one changes
        choice = scheduler.choose(OffloadPolicy.CACHEINF, 3.0 * (1 + 0.01 * (-1) ** i), 1.0, FEW)
        chosen.append(choice.partition)
    assert len({id(partition) for partition in chosen[2:]}) == 1


def test_a_split_whose_tensors_cost_too_much_to_send_is_left() -> None:
    slow = surroundings(MIXED, 3, 3.0)
    around = replace(
        slow,
        robot_ms=10 * slow.robot_ms,
        server_ms=10 * slow.server_ms,
        robot_transfer_ms=0.0,
        server_transfer_ms=0.0,
    )
    scheduler = Scheduler(MIXED, around, solve(MIXED, around, (5.0, 50.0, 500.0), (0.0, 0.9), time_limit_s=2.0))
    choices = [scheduler.choose(OffloadPolicy.CACHEINF, 50.0, 0.01, FEW) for _ in range(3)]
    assert choices[-1].transfers > 0
    scheduler.observe_robot(choices[-1], choices[-1].robot_ms + 50 * choices[-1].transfers)
    after = scheduler.choose(OffloadPolicy.CACHEINF, 50.0, 0.01, FEW)
    assert after.transfers == 0
    assert after.predicted_ms == pytest.approx(choices[-1].predicted_ms, rel=0.1)  # others are believed as before


def test_what_machines_really_take_counts() -> None:
    """The scheduler leaves a server that turns out to be slow."""
    scheduler = Scheduler(MIXED, AROUND)
    fast = outdated(MIXED, 0.3)
    choice = scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, fast)
    assert choice.local_share < 0.5
    for _ in range(10):
        choice = scheduler.choose(OffloadPolicy.REMOTE, 1000.0, 0.01, fast)
        scheduler.observe_robot(choice, choice.robot_ms)
        scheduler.observe_server(choice, 100 * choice.server_ms)
    assert scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, fast).local_share > 0.9
    assert np.isfinite(scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, fast).predicted_ms)


def test_a_server_that_was_slow_is_tried_again() -> None:
    """While a server does not compute, its estimate slowly returns to what was measured at first."""
    scheduler = Scheduler(MIXED, AROUND)
    for _ in range(10):
        choice = scheduler.choose(OffloadPolicy.REMOTE, 1000.0, 0.01, FEW)
        scheduler.observe_server(choice, 30 * choice.server_ms)
    assert scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, FEW).partition is None
    alone = 0
    while (choice := scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, FEW)).partition is None:
        scheduler.observe_robot(choice, choice.robot_ms)
        scheduler.observe_frame(choice, choice.predicted_ms)
        alone += 1
        assert alone < 2000
    assert alone > 10


def test_sharing_that_cost_the_robot_much_is_tried_again() -> None:
    """While a robot computes alone, what a shared frame costs it slowly returns to what was expected at first."""
    scheduler = Scheduler(MIXED, AROUND)
    for _ in range(10):
        choice = scheduler.choose(OffloadPolicy.REMOTE, 1000.0, 0.01, FEW)
        scheduler.observe_robot(choice, choice.robot_ms + 100)
    assert scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, FEW).partition is None
    alone = 0
    while (choice := scheduler.choose(OffloadPolicy.CACHEINF, 1000.0, 0.01, FEW)).partition is None:
        alone += 1
        assert alone < 3000
    assert alone > 10


def test_a_frame_for_which_the_server_lacks_more_than_it_changes_is_not_like_those_before() -> None:
    """Such frames follow an audit or a complete computation: nothing announces them but the outdated maps."""
    scheduler = Scheduler(MIXED, AROUND)
    for _ in range(3):
        usual = scheduler.choose(OffloadPolicy.REMOTE, 5.0, 0.01, FEW)
    assert usual.is_settled
    lacking = scheduler.choose(OffloadPolicy.REMOTE, 5.0, 0.01, outdated(MIXED, 0.05, server=1.0))
    assert not lacking.is_settled
    assert lacking.predicted_ms > 2 * usual.predicted_ms
    assert lacking.alone_ms == pytest.approx(scheduler.choose(OffloadPolicy.LOCAL, 5.0, 0.01, FEW).predicted_ms)
    assert scheduler.choose(OffloadPolicy.REMOTE, 5.0, 0.01, FEW).partition is not None


def test_how_far_the_choice_is_ahead() -> None:
    scheduler = Scheduler(MIXED, AROUND)
    assert scheduler.choose(OffloadPolicy.LOCAL, 5.0, 1.0, FEW).lead == np.inf
    slow, fast = (scheduler.choose(OffloadPolicy.CACHEINF, mbit_s, 1.0, FEW) for mbit_s in (0.01, 1000.0))
    assert slow.partition is None and slow.lead > 2
    assert fast.partition is not None and fast.lead > 0.9
