# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Answers are held no more often than is affordable where limits on the picture's change do not suffice."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions import MOVING_ALLOWANCE, Loss, Task
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.engine.decisions.raw_values import RawValues
from cacheinf_ros.pipeline.affordable import AffordableShare
from cacheinf_ros.pipeline.answer_holder import AnswerHolder
from cacheinf_ros.pipeline.burst import LONGEST
from cacheinf_ros.pipeline.holding import Holding
from cacheinf_ros.pipeline.newcomers import NOTICED
from cacheinf_ros.pipeline.picture_change import Change


def holding(computed: float, whole: float, moving: float = 0.0) -> Holding:
    return Holding(limit=Change(largest=9, mean=2), loss=Loss(whole=whole, moving=moving), computed=computed)


SEEN, UNSEEN = Change(largest=NOTICED + 1, mean=1), Change(largest=NOTICED, mean=1)


def held(share: AffordableShare, frames: int, change: Change = SEEN) -> int:
    """Count the frames that are held if limits always allow it, each for one frame."""
    count = 0
    for _ in range(frames):
        share.next_frame()
        count += share.take(0, change)
    return count


def test_nothing_is_counted_before_there_is_anything_to_go_by() -> None:
    assert held(AffordableShare(), 100) == 100


def test_what_used_up_the_promise_is_held_as_often_as_in_bursts() -> None:
    share = AffordableShare()
    share.learn(holding(computed=0.75, whole=0.02), max_loss=0.02)
    assert held(share, 100) == 25


def test_what_left_room_is_held_more_often_but_not_much() -> None:
    """A quarter of the frames cost half of the promise where things move: half of the frames would use it up."""
    share = AffordableShare()
    share.learn(holding(computed=0.75, whole=0.0, moving=MOVING_ALLOWANCE * 0.01), max_loss=0.02)
    assert held(share, 100) == 37  # 1.5 times a quarter


def test_a_few_frames_are_saved_up() -> None:
    share = AffordableShare()
    share.learn(holding(computed=0.8, whole=0.02), max_loss=0.02)
    for _ in range(1000):
        share.next_frame()
    assert [share.take(0, SEEN) for _ in range(7)] == 5 * [True] + 2 * [False]


@given(st.floats(0, 1), st.floats(-0.1, 0.02), st.floats(-0.1, 0.05), st.integers(1, 300))
def test_the_share_never_exceeds_one_and_a_half_of_what_bursts_showed(
    computed: float, whole: float, moving: float, frames: int
) -> None:
    share = AffordableShare()
    share.learn(holding(computed, whole, moving), max_loss=0.02)
    assert held(share, frames) <= 1.5 * (1 - computed) * frames + 1e-6


def test_other_tasks_count_nothing() -> None:
    share = AffordableShare()
    share.learn(holding(computed=0.9, whole=0.02), max_loss=0.02)
    share.learn_nothing()
    assert held(share, 50) == 50


def test_where_nothing_is_known_every_fifth_frame_may_be_held_and_none_for_long() -> None:
    """A change of class moves for 4 frames, and 1 of 20 may be wrong: every fifth time a frame late, on average."""
    share = AffordableShare()
    share.expect_changes(0.02)
    assert held(share, 100) == 20
    share.next_frame()
    assert not share.take(1, SEEN)
    share.learn(holding(computed=0.9, whole=0.0), max_loss=0.02)
    assert held(share, 101) == 15  # what the limits held in bursts is less
    share.learn_nothing()
    share.expect_changes(None)
    assert held(share, 100) == 100
    assert share.take(LONGEST - 1, SEEN)
    assert not share.take(LONGEST, SEEN)


def test_where_nothing_changes_visibly_limits_decide_alone() -> None:
    share = AffordableShare()
    share.expect_changes(0.02)
    assert held(share, 100, UNSEEN) == 100
    assert share.take(LONGEST - 1, UNSEEN)
    assert not share.take(LONGEST, UNSEEN)
    share.learn(holding(computed=0.9, whole=0.02), max_loss=0.02)
    assert held(share, 101, UNSEEN) == 10  # for class maps each held answer costs the same, however calm the picture


SIZE = (128, 128)
MANY, FEW = SIZE, (16, 16)  # pixels of a class map


def shares_held(pixels: tuple[int, int]) -> tuple[float, float]:
    """Return the share of frames held in a burst of a busy picture, and in the calm picture that follows it."""
    holder = AnswerHolder(ClassMaps("scores", pixels), SIZE, 0.02)
    moves = [0 if index % 4 == 3 else 4 for index in range(24)] + 48 * [0]
    held = []
    for place in np.cumsum(moves):
        image = np.full((*SIZE, 3), 40, np.uint8)
        image[40:80, place : place + 40] = 220
        held.append(holder.stands(image))
        if not held[-1]:
            step = SIZE[0] // pixels[0]
            holder.computed((image[::step, ::step, 0] > 128).astype(np.uint8))
    return 1 - holder.holding.computed, float(np.mean(held[24:]))


def test_a_calm_picture_after_a_busy_burst_is_not_held_much_more_often() -> None:
    in_burst, afterwards = shares_held(MANY)
    assert 0 < in_burst < 0.5
    assert in_burst <= afterwards <= 1.5 * in_burst
    assert shares_held(FEW)[1] > 0.75  # with few pixels, surprises tell soon enough


Views = Callable[[int], Iterator[NDArray[np.uint8]]]
CLASSES = ClassMaps("scores", SIZE)


def one_class(index: int) -> NDArray[Any]:
    """Return the decision of a classifier."""
    return np.array([[index]], np.uint8)


def panned(frames: int) -> Iterator[NDArray[np.uint8]]:
    """A camera pans over a texture."""
    texture = cv2.resize(
        np.random.default_rng(0).integers(0, 255, (SIZE[0] // 8, frames), np.uint8), (8 * frames, SIZE[0])
    )
    for index in range(frames):
        view = texture[:, 4 * index : 4 * index + SIZE[1]]
        yield np.ascontiguousarray(np.repeat(view[..., None], 3, axis=2))


def waving(frames: int) -> Iterator[NDArray[np.uint8]]:
    """A patch goes across, again and again, before a camera at rest."""
    for index in range(frames):
        image = np.full((*SIZE, 3), 40, np.uint8)
        left = 20 + 8 * (index % 7)
        image[40:70, left : left + 30] = 220
        yield image


def held_of(
    images: Iterator[NDArray[np.uint8]], decided: Callable[[int], Any], task: Task[Any] = CLASSES
) -> list[bool]:
    """Return which frames are held after the first burst; ``decided``: what is decided on each frame."""
    holder, held = AnswerHolder(task, SIZE, 0.02), []
    for index, image in enumerate(images):
        held.append(holder.stands(image))
        if not held[-1]:
            holder.computed(decided(index))
    return held[24:]


@pytest.mark.parametrize("views", [panned, waving])
def test_a_class_that_never_changed_is_no_evidence_where_something_moves(views: Views) -> None:
    held = held_of(views(400), lambda index: one_class(0))
    assert 0 < np.mean(held) <= 0.2
    assert not any(first and second for first, second in pairwise(held))


def test_values_need_no_motion_as_evidence() -> None:
    """Each frame's values show what a held answer loses, and nothing is promised where they move."""
    values = RawValues([1.0], SIZE)
    held = held_of(panned(400), lambda index: values.read({"depth": np.float32([[3.0]])}, SIZE), values)
    assert np.mean(held) > 0.3


def test_classes_that_change_with_the_picture_are_evidence() -> None:
    """A class for every sixth frame shows in a burst what held answers lose, and then the limits decide."""
    assert np.mean(held_of(panned(400), lambda index: one_class(index // 6 % 5))) < 0.05
