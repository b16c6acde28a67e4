# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Limits on change within which an answer is held, and the promise that they keep."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheinf_ros.engine.decisions import Loss, Score
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.pipeline.answer_holder import AnswerHolder
from cacheinf_ros.pipeline.burst import LONGEST, Burst
from cacheinf_ros.pipeline.holding import NEVER, best_holding, uncertainty
from cacheinf_ros.pipeline.picture_change import Change, ChangeMeter

SIZE = (64, 64)
TASK, METER = ClassMaps("scores", SIZE), ChangeMeter(SIZE)


def pictures(places: Sequence[int]) -> list[np.ndarray]:
    """Draw a bright square at each of these places of a dark picture; none below 0."""
    images = []
    for place in places:
        image = np.full((*SIZE, 3), 40, np.uint8)
        if place >= 0:
            image[20:36, place : place + 16] = 220
        images.append(image)
    return images


def decided(image: np.ndarray) -> np.ndarray:
    """Return what a perfect network would decide: class 1 where it is bright."""
    return (image[::4, ::4, 0] > 128).astype(np.uint8)


def burst_of(images: Sequence[np.ndarray]) -> Burst[np.ndarray]:
    burst = Burst(TASK, METER)
    for image in images:
        burst.add(METER.thumbnail(image), decided(image))
    return burst


def test_a_still_picture_is_computed_once_in_so_many_frames() -> None:
    best = best_holding([burst_of(pictures([8] * 26))], 0.02)
    assert best.limit is not None
    assert best.loss == Loss(whole=0, moving=0)
    assert LONGEST == 5
    assert best.computed == 5 / 26  # frames 0, 6, 12, 18, 24


def test_where_every_frame_moves_nothing_is_held() -> None:
    images = pictures([2 * t for t in range(24)])
    assert best_holding([burst_of(images)], 0.0) == NEVER


def test_no_limit_goes_beyond_what_was_seen() -> None:
    best = best_holding([burst_of(pictures([-1] * 24))], 0.02)
    assert best.limit is not None
    assert not METER.between(METER.thumbnail(pictures([-1])[0]), METER.thumbnail(pictures([30])[0])).within(best.limit)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-1, 40), min_size=10, max_size=30), st.floats(0, 0.3))
def test_the_loss_of_the_chosen_limits_is_within_the_promise(places: list[int], max_loss: float) -> None:
    burst = burst_of(pictures(places))
    best = best_holding([burst], max_loss)
    dense = sum(burst.scores(range(len(burst))), Score())
    ours = sum(burst.scores(burst.held(best.limit)), Score())
    loss = Loss.of(ours, dense)
    assert loss.within(max_loss)
    assert (best.loss.whole, best.loss.moving) == pytest.approx((loss.whole, loss.moving), abs=1e-9)
    computed = [index for index, answer in enumerate(burst.held(best.limit)) if index == answer]
    assert best.computed == pytest.approx(len(computed) / len(burst))


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=2, max_size=20))
def test_four_times_as_many_frames_tell_the_loss_twice_as_exactly(counts: list[tuple[float, float]]) -> None:
    ours = [Score(right=min(pair), total=10) for pair in counts]
    dense = [Score(right=max(pair), total=10) for pair in counts]
    few, many = uncertainty(ours, dense), uncertainty(4 * ours, 4 * dense)
    assert many.whole == pytest.approx(few.whole / 2, abs=1e-9)
    assert many.moving == 0
    assert uncertainty(dense, dense) == Loss(whole=0, moving=0)


def test_a_frame_that_loses_everything_is_within_the_confidence_interval() -> None:
    dense = [Score(right=10, total=10, moving_right=1, moving_total=1)] * 16
    ours = [*dense[1:], Score(right=0, total=10, moving_right=0, moving_total=1)]
    interval = uncertainty(ours, dense)
    assert interval.whole == pytest.approx(1.96 * (15 / 16**3) ** 0.5)
    assert interval.whole == interval.moving


def test_an_answer_is_held_for_so_many_frames_and_no_longer() -> None:
    answers = burst_of(pictures([8] * 30)).held(Change(largest=1, mean=1))
    assert answers == [first for first in (0, 6, 12, 18, 24) for _ in range(6)]


def run(holder: AnswerHolder, images: Sequence[np.ndarray]) -> list[int]:
    """Return the indices of the frames that were computed."""
    computed = []
    for index, image in enumerate(images):
        if not holder.stands(image):
            computed.append(index)
            holder.computed(decided(image))
    return computed


def test_an_object_that_comes_into_an_empty_scene_is_computed_at_once() -> None:
    rng = np.random.default_rng(3)
    scene = pictures([-1] * 100 + [2 * t for t in range(20)])
    noisy = [np.clip(image + rng.normal(0, 2, image.shape), 0, 255).astype(np.uint8) for image in scene]
    computed = run(AnswerHolder(TASK, SIZE, 0.02), noisy)
    assert len([index for index in computed if 24 <= index < 100]) < 40
    assert set(range(100, 120)) <= set(computed)


def test_before_the_first_burst_nothing_is_held_and_later_bursts_report_the_loss() -> None:
    holder = AnswerHolder(TASK, SIZE, 0.02)
    computed = run(holder, pictures([8] * 200))
    assert computed[:24] == list(range(24))
    assert holder.report is not None
    assert holder.report.kept
    assert holder.bursts == 2
    assert holder.broken == 0


def test_a_camera_at_rest_does_not_widen_its_limits() -> None:
    holder = AnswerHolder(TASK, SIZE, 0.02)
    run(holder, pictures([8] * 100))
    assert holder.bursts == 1
    assert holder.scale == 1


def test_a_burst_in_which_others_answer_is_given_up_until_the_next_is_due() -> None:
    """It would begin anew with each frame, and none would ever be computed in the way that was chosen."""
    holder = AnswerHolder(TASK, SIZE, 0.02)
    frames = 0

    def compute(times: int) -> None:
        nonlocal frames
        for _ in range(times):
            frames += 1
            if not holder.stands(np.full((*SIZE, 3), frames % 200, np.uint8)):
                holder.computed(np.full(SIZE, frames % 2, np.uint8))

    compute(10)
    holder.lost(is_interrupted=True)
    assert holder.burst_frames == 10  # before the first burst nothing is known: it goes on
    compute(200)
    while not holder.wants_dense:
        compute(1)
    bursts = holder.bursts
    assert bursts >= 1
    compute(3)
    holder.lost(is_interrupted=True)
    assert not holder.wants_dense and holder.bursts == bursts
    compute(20)
    assert not holder.wants_dense
    compute(2000)
    assert holder.bursts > bursts


def test_a_stream_that_begins_anew_gets_a_whole_burst() -> None:
    holder = AnswerHolder(TASK, SIZE, 0.02)
    run(holder, pictures([8] * 10))
    holder.lost()
    assert run(holder, pictures([8] * 24)) == list(range(24))
    assert holder.bursts == 1


def test_the_engine_s_own_answers_are_judged_by_the_same_burst() -> None:
    holder, report = AnswerHolder(TASK, SIZE, 0.02), None
    for image in pictures([2 * t for t in range(24)]):
        assert not holder.stands(image)
        report = holder.computed(decided(image), by_engine=np.zeros_like(decided(image)))
    assert report is not None
    assert report.engine is not None
    assert report.engine.whole > 0.02


def test_where_less_is_promised_limits_are_found_anew() -> None:
    holder = AnswerHolder(TASK, SIZE, 0.4)
    for image in pictures([8] * 8 + [8 + t // 2 for t in range(16)]):
        assert not holder.stands(image)
        holder.computed(decided(image))
    allowed = holder.holding
    holder.promise(0.0)
    assert holder.holding.computed > allowed.computed and holder.holding.loss.within(0.0)
    holder.promise(0.4)  # a larger promise is used after the next burst
    assert holder.holding.loss.within(0.0)
