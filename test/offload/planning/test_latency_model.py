# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The time that machines take is learned from few frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.offload.planning.latency_model import LatencyModel


def test_a_profile_is_believed_until_something_is_seen() -> None:
    pace = LatencyModel([0.0, 0.0])
    assert pace.slowdown == 1
    assert pace.overhead_ms((1.0, 1.0)) == 0
    pace = LatencyModel([0.0, 0.5], slowdown=2)
    assert (pace.slowdown, pace.overhead_ms((1.0, 4.0))) == (2, 2)


@given(slowdown=st.floats(0.5, 5), alone=st.floats(0, 50), shared=st.floats(0, 50), seed=st.integers(0, 99))
def test_a_straight_line_is_found(slowdown: float, alone: float, shared: float, seed: int) -> None:
    pace, rng = LatencyModel([0.0, 0.0]), np.random.default_rng(seed)
    for i in range(60):
        profile_ms, kind = rng.uniform(0, 300), i % 2
        took_ms = slowdown * profile_ms + (alone, shared)[kind]
        pace.observe(profile_ms, (1.0 - kind, float(kind)), took_ms)
    for kind in (0, 1):
        predicted = pace.slowdown * 100 + pace.overhead_ms((1.0 - kind, float(kind)))
        assert predicted == pytest.approx(slowdown * 100 + (alone, shared)[kind], rel=0.1, abs=2)


def test_a_machine_of_which_nothing_is_seen_becomes_what_it_was_measured_to_be() -> None:
    pace = LatencyModel([0.0])
    for _ in range(20):
        pace.observe(100.0, (1.0,), 1000.0)
    slow = pace.slowdown
    for _ in range(2000):
        pace.relax()
    assert slow > 5 and pace.slowdown == pytest.approx(1, abs=0.01)
    pace.observe(100.0, (1.0,), 100.0)
    assert pace.slowdown < 1.5  # old observations are forgotten, too
    fast = LatencyModel([0.0], slowdown=0.5)
    fast.relax()
    assert fast.slowdown == 0.5


def test_overheads_of_frames_that_are_not_seen_any_more_are_forgotten_by_themselves() -> None:
    """A robot that was busy for a while and then computed alone would never have shared a frame again."""
    robot = LatencyModel([0.0, 0.0, 1.0], slowdown=1.0)
    for _ in range(50):
        robot.observe(0.1, (0.0, 1.0, 2.0), 24.0)
        robot.observe(50.0, (1.0, 0.0, 0.0), 60.0)
    alone, shared = robot.overhead_ms((1.0, 0.0, 0.0)), robot.overhead_ms((0.0, 1.0, 2.0))
    assert shared > 15
    for _ in range(1000):
        robot.relax_overheads((1, 2))
    assert robot.overhead_ms((0.0, 1.0, 2.0)) == pytest.approx(2.0, abs=0.5)
    assert robot.overhead_ms((1.0, 0.0, 0.0)) == alone
    robot.observe(0.1, (0.0, 1.0, 2.0), 24.0)
    assert robot.overhead_ms((0.0, 1.0, 2.0)) > 15  # one frame says it again


def test_one_frame_says_much() -> None:
    """The robot's processor has become three times as slow as when it was measured."""
    pace = LatencyModel([0.0])
    pace.observe(100.0, (1.0,), 300.0)
    assert pace.slowdown * 100 + pace.overhead_ms((1.0,)) > 200


def test_cheap_frames_with_an_overhead_do_not_make_a_machine_slow() -> None:
    pace = LatencyModel([0.0])
    for _ in range(100):
        pace.observe(0.1, (1.0,), 20.0)
    assert pace.slowdown < 2
    assert pace.overhead_ms((1.0,)) == pytest.approx(20, rel=0.05)


def test_what_is_not_seen_any_more_stays() -> None:
    """While the server computes everything for long, how slow the robot is must not be forgotten."""
    pace = LatencyModel([0.0, 0.0])
    for _ in range(20):
        pace.observe(100.0, (1.0, 0.0), 510.0)
    alone = pace.slowdown * 100 + pace.overhead_ms((1.0, 0.0))
    for _ in range(500):
        pace.observe(0.0, (0.0, 1.0), 8.0)
    assert pace.slowdown * 100 + pace.overhead_ms((1.0, 0.0)) == pytest.approx(alone, rel=0.02)
    assert pace.overhead_ms((0.0, 1.0)) == pytest.approx(8, rel=0.05)


def test_fast_and_slow_frames_count_alike() -> None:
    pace = LatencyModel([0.0])
    for i in range(200):
        pace.observe(0.0, (1.0,), (10.0, 100.0)[i % 2])
    assert pace.overhead_ms((1.0,)) == pytest.approx(55, rel=0.1)


def test_what_belongs_to_a_kind_of_which_there_is_much_is_put_down_to_it() -> None:
    """After many frames without transfers one with 50 takes 200 ms longer, which is attributed to transfers."""
    pace = LatencyModel([0.0, 0.5])
    for _ in range(50):
        pace.observe(10.0, (1.0, 0.0), 20.0)
    pace.observe(10.0, (1.0, 50.0), 220.0)
    assert pace.overhead_ms((0.0, 1.0)) == pytest.approx(4, rel=0.25)
    assert pace.slowdown * 10 + pace.overhead_ms((1.0, 0.0)) == pytest.approx(20, rel=0.1)


def test_frames_with_little_of_a_kind_say_little_about_it() -> None:
    """Half a percent of the input is encoded and times vary by 4 ms, which says little about encoding all of it."""
    pace, rng = LatencyModel([0.0, 0.0]), np.random.default_rng(0)
    for _ in range(300):
        changed = rng.uniform(0.001, 0.005)
        pace.observe(0.0, (1.0, changed), 6 + 10 * changed + rng.uniform(-4, 4))
        assert pace.overhead_ms((1.0, 1.0)) < 60
