# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Limits follow what computed answers show about the held answers before them."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions import Score
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.pipeline.burst import Burst
from cacheinf_ros.pipeline.picture_change import Change, ChangeMeter
from cacheinf_ros.pipeline.surprises import Surprises

SIZE = (32, 32)
LIMIT = Change(largest=5, mean=1)
RIGHT, WRONG = Score(right=64, total=64), Score(right=16, total=64)


def burst_of_light(levels: tuple[int, ...]) -> Burst[NDArray[Any]]:
    """Make a burst in which the light changes but no decision does."""
    meter = ChangeMeter(SIZE)
    burst = Burst(ClassMaps("scores", SIZE), meter)
    for index in range(16):
        image = np.full((*SIZE, 3), levels[index % len(levels)], np.uint8)
        burst.add(meter.thumbnail(image), np.zeros((8, 8), np.uint8))
    return burst


def learned(max_loss: float = 0.02) -> Surprises:
    surprises = Surprises()
    surprises.learn([burst_of_light((40, 60))], max_loss, camera_moves=False)
    return surprises


def test_limits_shrink_at_once_and_grow_slowly() -> None:
    surprises = learned()
    surprises.see(WRONG, frames=6, within_limits=False)
    shrunk = surprises.scale
    assert shrunk < 0.6
    for _ in range(5):
        surprises.see(RIGHT, frames=6, within_limits=False)
    assert surprises.scale == shrunk  # so much was missed that growth pays for it first
    for _ in range(43):
        surprises.see(RIGHT, frames=6, within_limits=False)
    assert shrunk < surprises.scale < 1


def test_what_was_missed_beyond_one_step_is_paid_before_limits_grow() -> None:
    surprises, slightly = learned(), Score(right=60, total=64)
    surprises.see(slightly, frames=6, within_limits=False)  # a small miss, which one step accounts for
    paid = surprises.scale
    assert 0.5 < paid < 1
    surprises.see(RIGHT, frames=6, within_limits=False)
    assert surprises.scale > paid
    surprises = learned()
    for _ in range(10):  # a visitor who is missed again and again, a minute of calm frames after the last time
        surprises.see(WRONG, frames=6, within_limits=False)
        for _ in range(16):
            surprises.see(RIGHT, frames=6, within_limits=False)
    assert surprises.scale < 0.2


def test_a_picture_that_stays_within_the_limits_does_not_speak_for_wider_ones() -> None:
    surprises = learned()
    for _ in range(40):
        surprises.see(RIGHT, frames=6, within_limits=True)
    assert surprises.scale == 1
    surprises.see(WRONG, frames=6, within_limits=True)
    assert surprises.scale < 0.6


def test_what_an_empty_scene_lets_limits_grow_by_does_not_widen_those_of_the_next_burst() -> None:
    surprises = learned()
    for _ in range(40):
        surprises.see(Score(), frames=6, within_limits=False)
    assert surprises.scale > 2
    surprises.learn([burst_of_light((40, 60))], 0.02, camera_moves=False)
    assert surprises.scale == 1


def test_where_the_camera_moves_half_of_what_a_first_burst_found_counts_until_more_is_shown() -> None:
    surprises = Surprises()
    surprises.learn([burst_of_light((40, 60))], 0.02, camera_moves=True)
    assert surprises.scale == 0.5
    surprises.see(RIGHT, frames=1, within_limits=False)
    grown = surprises.scale
    assert grown > 0.5
    surprises.learn([burst_of_light((40, 60))] * 2, 0.02, camera_moves=True)
    assert surprises.scale == grown  # a second burst does not count as the first one


def test_limits_found_on_many_decisions_do_not_grow() -> None:
    meter = ChangeMeter(SIZE)
    burst = Burst(ClassMaps("scores", SIZE), meter)
    for level in range(16):
        burst.add(meter.thumbnail(np.full((*SIZE, 3), level, np.uint8)), np.zeros((64, 64), np.uint8))
    surprises = Surprises()
    surprises.learn([burst], 0.02, camera_moves=False)
    for _ in range(20):
        surprises.see(Score(right=4096, total=4096), frames=6, within_limits=False)
    assert surprises.scale == 1


def test_an_answer_that_was_not_held_misses_nothing() -> None:
    surprises = learned()
    surprises.see(WRONG, frames=1, within_limits=False)
    assert surprises.scale >= 1


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 13), st.booleans()), max_size=60), st.floats(0, 0.5))
def test_limits_stay_positive_and_within_the_changes_that_were_seen(
    seen: list[tuple[float, int, bool]], max_loss: float
) -> None:
    surprises = learned(max_loss)
    for share, frames, within_limits in seen:
        surprises.see(Score(right=64 * share, total=64), frames, within_limits=within_limits)
        limit = surprises.scaled(LIMIT)
        assert 0 < limit.largest <= 20
        assert 0 < limit.mean <= 20


def test_what_flickers_in_every_burst_is_no_surprise() -> None:
    meter, rng = ChangeMeter(SIZE), np.random.default_rng(2)
    burst = Burst(ClassMaps("scores", SIZE), meter)
    decisions = [(rng.random((32, 32)) < 0.1).astype(np.uint8) for _ in range(17)]
    for decision in decisions[:16]:
        burst.add(meter.thumbnail(np.zeros((*SIZE, 3), np.uint8)), decision)
    surprises = Surprises()
    surprises.learn([burst], 0.1, camera_moves=False)
    surprises.see(burst.beside[3], frames=12, within_limits=False)
    assert surprises.scale > 0.9


def test_limits_under_which_much_is_missed_even_at_their_smallest_have_failed() -> None:
    surprises = learned()
    while surprises.scale > 0.1:
        surprises.see(WRONG, frames=6, within_limits=True)
        assert not surprises.refuted
    surprises.see(WRONG, frames=6, within_limits=True)
    assert surprises.refuted
    surprises.see(RIGHT, frames=6, within_limits=False)
    surprises.learn([burst_of_light((40, 60))], 0.02, camera_moves=False)  # another promise, perhaps
    assert surprises.refuted  # until a burst finds others
    surprises.believe()
    assert not surprises.refuted
