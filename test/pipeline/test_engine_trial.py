# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine computes frames where it loses little and is faster; with a server complete frames are tried too."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine.decisions import Loss
from cacheinf_ros.pipeline.engine_trial import SHARE, EngineTrial, Way, goes_first

ASKED = 0.02
MUCH_MOVED = 100.0
LITTLE, MUCH = Loss(whole=0.0, moving=0.0), Loss(whole=0.5, moving=0.5)


def bursts(trial: EngineTrial, loss: Loss, engine_ms: float, count: int) -> list[bool]:
    """Judge ``count`` bursts, and return for each whether the engine was on trial in it."""
    was_on = []
    for _ in range(count):
        was_on.append(trial.is_on)
        judge(trial, loss if trial.is_on else None, engine_ms)
    return was_on


def judge(trial: EngineTrial, loss: Loss | None, engine_ms: float) -> str:
    """Judge a burst of sixteen frames that take 10 ms densely; without a loss, the engine does not compute them."""
    for frame in range(16):
        if loss is not None and trial.is_on:
            trial.compare(engine_ms, 10.0, engine_first=goes_first(frame))
        else:
            trial.computed(10.0)
    return trial.judge(loss if trial.is_on else None, 10.0, ASKED, MUCH_MOVED)


@given(st.floats(0.0, 0.05), st.floats(0.0, 0.1), st.floats(1.0, 20.0), st.booleans())
def test_it_is_chosen_only_where_it_keeps_its_share_and_is_faster(
    whole: float, moving: float, took_ms: float, has_server: bool
) -> None:
    trial, loss = EngineTrial(has_server=has_server), Loss(whole=whole, moving=moving)
    judge(trial, loss, took_ms)
    assert (trial.way is Way.CACHED) == (loss.within(SHARE * ASKED) and took_ms <= 9.5)


def test_what_does_not_pay_takes_an_ever_smaller_share_of_the_time() -> None:
    was_on = bursts(EngineTrial(), MUCH, 10.0, 200)
    # a trial takes the time of 16 dense frames: a fiftieth of the time of 50 bursts, then a hundredth of that of 100
    assert [index for index, on in enumerate(was_on) if on] == [0, 51, 152]


@given(st.floats(25.0, 1e4))
def test_what_is_hopeless_is_given_up_after_some_frames(took_ms: float) -> None:
    trial = EngineTrial()
    for frame in range(16):
        if trial.is_on:
            trial.compare(took_ms, 10.0, engine_first=goes_first(frame))
        else:
            assert frame == 7
            break
    assert "given up" in trial.judge(None, 10.0, ASKED, MUCH_MOVED)
    assert trial.way is Way.DENSE and not trial.is_on and not trial.wants_thresholds


def test_a_trial_that_begins_within_a_burst_is_judged_by_the_next() -> None:
    trial = EngineTrial()
    trial.compare(1.0, 10.0, engine_first=True)
    assert not trial.judge(None, 10.0, ASKED, MUCH_MOVED)
    assert trial.is_on and trial.way is Way.DENSE


def test_with_a_server_complete_frames_are_tried_where_reuse_loses_too_much() -> None:
    trial = EngineTrial(has_server=True)
    assert "with the server" in judge(trial, MUCH, 1.0)
    assert trial.way is Way.DENSE and trial.is_on and not trial.reuses
    assert "complete with the server" in judge(trial, LITTLE, 1.0)
    assert trial.way is Way.CACHED and not trial.reuses


def test_a_burst_that_was_interrupted_says_nothing() -> None:
    """Where a server comes or goes within a burst, its loss and time are those of two kinds of frames."""
    trial = EngineTrial()
    trial.lost(is_interrupted=True)
    assert not judge(trial, LITTLE, 1.0)
    assert trial.way is Way.DENSE and trial.is_on and not trial.is_judged
    judge(trial, LITTLE, 1.0)
    assert trial.way is Way.CACHED and trial.is_judged
    trial.start_anew()
    assert not trial.is_judged
    trial.lost(is_interrupted=True)
    trial.lost()  # the burst begins again, with frames of one kind
    assert judge(trial, LITTLE, 1.0)


def test_thresholds_are_wanted_where_reuse_is_right_but_slow() -> None:
    trial = EngineTrial()
    judge(trial, LITTLE, 12.0)
    assert trial.wants_thresholds
    trial.start_anew()
    assert not trial.wants_thresholds and trial.is_on


def test_who_goes_second_is_not_timed() -> None:
    trial = EngineTrial()
    for frame in range(16):
        first = frame % 2 == 1
        trial.compare(12.0 if first else 1.0, 1.0 if first else 10.0, engine_first=first)
    assert "12.0 ms" in trial.judge(LITTLE, 10.0, ASKED, MUCH_MOVED)
    assert trial.way is Way.DENSE


@given(st.floats(10.1, 1e4), st.floats(1.0, 10.0))
def test_what_is_slower_between_bursts_than_dense_frames_were_is_given_up(slow_ms: float, fast_ms: float) -> None:
    trial = EngineTrial()
    judge(trial, LITTLE, 1.0)
    assert not any(trial.answered(fast_ms) for _ in range(100))
    found = [trial.answered(slow_ms) for _ in range(9)]
    assert any("given up" in text for text in found)
    assert trial.way is Way.DENSE and not trial.is_on


def test_a_picture_at_rest_shows_nothing_of_what_comes_into_it() -> None:
    for has_server, way in ((False, Way.DENSE), (True, Way.DENSE)):
        trial = EngineTrial(has_server=has_server)
        for frame in range(16):
            trial.compare(1.0, 10.0, engine_first=frame % 2 == 1)
        assert "nothing moved" in trial.judge(LITTLE, 10.0, ASKED, 2.0)
        assert trial.way is way
        assert not trial.wants_thresholds  # it would be fast enough


def test_complete_frames_by_a_server_lose_nothing_whatever_moves() -> None:
    trial = EngineTrial(has_server=True)
    judge(trial, MUCH, 1.0)
    for frame in range(16):
        trial.compare(1.0, 10.0, engine_first=frame % 2 == 1)
    trial.judge(LITTLE, 10.0, ASKED, 0.0)
    assert trial.way is Way.CACHED and trial.covers(None)


class Answering:
    """A stand-in for an engine: only what it is asked to reuse matters."""

    def run(self, *_: object) -> None:
        return None


def map_of(changed: int) -> CacheMap:
    """Make a cache map in which so many of a hundred blocks changed."""
    reusable = np.arange(100).reshape(10, 10) >= changed
    return CacheMap.of_blocks(reusable, (100, 100), 10, Motion.none())


def chosen(*changed: int) -> EngineTrial:
    """Make a trial of sixteen frames with such changes, after which the engine computes frames."""
    trial = EngineTrial()
    for frame in range(16):
        trial.run(Answering(), None, map_of(changed[frame % len(changed)]), None)
        trial.compare(1.0, 10.0, engine_first=goes_first(frame))
    trial.judge(LITTLE, 10.0, ASKED, MUCH_MOVED)
    assert trial.way is Way.CACHED
    return trial


@given(st.lists(st.integers(0, 50), min_size=1, max_size=16), st.integers(0, 99))
def test_the_engine_computes_no_frame_that_changes_more_than_any_on_trial(seen: list[int], now: int) -> None:
    trial = chosen(*seen)
    assert trial.covers(map_of(now)) == (now <= max(seen))
    assert trial.covers(None) and trial.covers(map_of(100))  # these are computed completely


def test_a_frame_of_which_nothing_is_reused_says_nothing_of_what_reuse_loses() -> None:
    assert not chosen(100, 3, 3).covers(map_of(4))


def test_an_engine_that_fails_is_tried_again_only_after_a_while() -> None:
    trial = chosen(3)
    trial.give_up()
    assert trial.way is Way.DENSE and not trial.is_on
    trial.judge(None, 10.0, ASKED, MUCH_MOVED)
    assert not trial.is_on
    trial.computed(1e5)
    trial.judge(None, 10.0, ASKED, MUCH_MOVED)
    assert trial.is_on


def test_where_everything_changes_more_the_engine_waits_for_another_trial() -> None:
    trial = chosen(3)
    assert [trial.covers(map_of(4)) for _ in range(9)] == 9 * [False]
    assert trial.way is Way.DENSE and trial.is_on
    trial = chosen(3)
    for _ in range(5):
        assert not any(trial.covers(map_of(4)) for _ in range(8))
        assert trial.covers(map_of(2))
    assert trial.way is Way.CACHED
