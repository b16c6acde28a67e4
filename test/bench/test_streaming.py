# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which answer a user has when a frame comes: examples by hand, and properties for any times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.bench.streaming import (
    Emission,
    answer_at_rate,
    camera_times,
    frames_behind,
    held_up_ms,
    newest,
    newest_of_frames,
    simulate,
)

TIMES = st.lists(st.none() | st.floats(0.0, 500.0), min_size=1, max_size=60)
PERIODS = st.floats(1.0, 200.0)


def answered(took_ms: list[float | None], period_ms: float) -> list[int | None]:
    return newest(simulate(took_ms, period_ms), [index * period_ms for index in range(len(took_ms))])


def test_the_latest_frame_wins() -> None:
    # a camera with a frame every 10 ms: while frame 0 is computed, 1 and 2 come; 3 comes after 2 was begun at 25
    assert simulate([25.0] * 6, 10.0) == [
        Emission(at_ms=25.0, frame=0),
        Emission(at_ms=50.0, frame=2),
        Emission(at_ms=75.0, frame=5),
    ]


def test_an_answer_within_the_period_is_one_frame_late() -> None:
    assert answered([4.0] * 4, 10.0) == [None, 0, 1, 2]
    assert answered([10.0] * 4, 10.0) == [None, 0, 1, 2]
    assert answered([10.5] * 4, 10.0) == [None, None, 0, 1]


def test_frames_that_are_passed_over_cost_nothing() -> None:
    assert simulate([15.0, None, 15.0, None], 10.0) == [Emission(at_ms=15.0, frame=0), Emission(at_ms=35.0, frame=2)]
    assert answered([15.0, None, 15.0, None], 10.0) == [None, None, 0, 0]


@given(frames=st.integers(1, 50), period_ms=PERIODS)
def test_answers_in_no_time_are_those_to_the_frames_themselves(frames: int, period_ms: float) -> None:
    assert answered([0.0] * frames, period_ms) == list(range(frames))


@given(took_ms=TIMES, period_ms=PERIODS)
def test_one_frame_at_a_time_and_none_before_it_came(took_ms: list[float | None], period_ms: float) -> None:
    free_ms, last = 0.0, -1
    for emission in simulate(took_ms, period_ms):
        took = took_ms[emission.frame]
        assert took is not None and emission.frame > last
        started_ms = emission.at_ms - took
        assert started_ms >= free_ms - 1e-6 and started_ms >= emission.frame * period_ms - 1e-6
        # it was the newest frame at that time
        later = (index for index in range(emission.frame + 1, len(took_ms)) if took_ms[index] is not None)
        assert all(index * period_ms >= started_ms - 1e-6 for index in later)
        free_ms, last = emission.at_ms, emission.frame


def test_what_is_derived_from_a_frame_that_was_overtaken_cannot_be_given() -> None:
    # every second frame is computed, and each one between follows it: 2 and 3 come while 0 is computed, 2 goes first
    assert simulate([35.0, 1.0] * 3, 10.0, [0, 0, 2, 2, 4, 4]) == [
        Emission(at_ms=35.0, frame=0),
        Emission(at_ms=70.0, frame=2),
        Emission(at_ms=105.0, frame=4),
        Emission(at_ms=106.0, frame=5),
    ]
    # 1 follows 0 in time; 2 and 3 would follow a frame that is never computed
    assert simulate([5.0, 1.0, 1.0, 1.0], 10.0, [0, 0, -1, -1]) == [
        Emission(at_ms=5.0, frame=0),
        Emission(at_ms=11.0, frame=1),
    ]


@given(took_ms=st.lists(st.floats(0.0, 500.0), min_size=1, max_size=60), period_ms=PERIODS)
def test_a_way_without_memory_is_simulated_as_it_would_run(took_ms: list[float], period_ms: float) -> None:
    seen: list[int] = []

    def answer(index: int) -> tuple[float, float]:
        seen.append(index)
        return took_ms[index], 0.0

    emissions = answer_at_rate(answer, len(took_ms), period_ms)
    assert emissions == simulate(took_ms, period_ms) == simulate(took_ms, period_ms, range(len(took_ms)))
    assert seen == [emission.frame for emission in emissions]


def test_what_is_done_behind_an_answer_holds_up_only_the_next_one() -> None:
    emissions = answer_at_rate(lambda index: (4.0, (1.0, 10.0, 0.0)[index]), 3, 10.0)
    assert emissions == [
        Emission(at_ms=4.0, frame=0),
        Emission(at_ms=14.0, frame=1),
        Emission(at_ms=28.0, frame=2),  # begun at 24
    ]
    assert held_up_ms(4.0, 1.0, 10.0) == 0.0
    assert held_up_ms(4.0, 10.0, 10.0) == 4.0
    assert held_up_ms(40.0, 3.0, 10.0) == 3.0  # frames wait in any case


@given(took_ms=TIMES, period_ms=PERIODS)
def test_the_newest_answer_is_never_one_from_the_future(took_ms: list[float | None], period_ms: float) -> None:
    found = answered(took_ms, period_ms)
    assert all(source is None or source <= index for index, source in enumerate(found))
    known = [source for source in found if source is not None]
    assert known == sorted(known)


def test_how_late_answers_are() -> None:
    assert newest_of_frames([0, 3], 5) == [0, 0, 0, 3, 3]
    assert newest_of_frames([2], 4) == [None, None, 2, 2]
    assert frames_behind([None, 0, 0, 3]) == pytest.approx((1 + 2 + 0) / 3)
    assert frames_behind([None]) is None


def test_times_of_frames_that_nobody_heard_of() -> None:
    assert camera_times({1: 110.0, 3: 131.0}, 6, 10.0) == [100.0, 110.0, 120.5, 131.0, 141.0, 151.0]
