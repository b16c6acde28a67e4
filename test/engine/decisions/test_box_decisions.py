# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Box decisions: soft F1 against the objects that neighbouring frames agree on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheinf_ros.engine.decisions.box_consensus import line_at_zero
from cacheinf_ros.engine.decisions.box_decisions import BoxDecisions
from cacheinf_ros.engine.decisions.soft_boxes import SOFT, SoftBoxes
from cacheinf_ros.engine.decoders import Selection, decode
from cacheinf_ros.graph.card import ModelCard
from cacheinf_ros.graph.decoder_configs import Boxes, FastestDet

CARD = ModelCard(name="boxes", input_size=(100, 100), decoder=Boxes(relative=False, score_threshold=0.5))
TASK = BoxDecisions(CARD)


def found(
    *boxes: tuple[float, float, float, float], classes: list[int] | None = None, weight: float = 1.0
) -> SoftBoxes:
    return SoftBoxes(
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        classes=np.array(classes or [0] * len(boxes), np.int64),
        weights=np.full(len(boxes), weight, np.float32),
    )


def test_scores_near_the_threshold_count_in_part() -> None:
    outputs = {
        "boxes": np.array([[[0, 0, 10, 10], [20, 20, 30, 30], [40, 40, 50, 50], [60, 60, 70, 70]]], np.float32),
        "scores": np.array([[[0.5], [0.5 + SOFT], [0.5 - SOFT / 2], [0.2]]], np.float32),
    }
    read = TASK.read(outputs, (200, 100))
    assert sorted(read.weights.tolist()) == pytest.approx([0.25, 0.5, 1.0])
    assert read.boxes[0].tolist() == [20, 40, 10, 20]  # in pixels of the frame


def test_boxes_are_read_as_the_user_selects_them() -> None:
    outputs = {
        "boxes": np.array([[[0, 0, 10, 10], [20, 20, 30, 30], [40, 40, 50, 50]]], np.float32),
        "scores": np.array([[[0.7, 0.1], [0.9, 0.1], [0.1, 0.9]]], np.float32),
    }
    task = BoxDecisions(CARD, Selection(score_threshold=0.7, classes=frozenset({0})))
    read = task.read(outputs, (100, 100))
    assert sorted(read.weights.tolist()) == pytest.approx([0.5, 1.0])
    assert read.classes.tolist() == [0, 0]


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.floats(-99, 99), st.floats(0.05, 1)), min_size=3, max_size=9).filter(
        lambda points: len({time for time, _, _ in points}) > 2
    )
)
def test_the_line_is_that_of_polyfit(points: list[tuple[int, float, float]]) -> None:
    times, values, weights = (np.array(column, np.float64) for column in zip(*points, strict=True))
    ours = line_at_zero(times, values[:, None], np.square(weights)[:, None])
    assert ours[0] == pytest.approx(np.polyfit(times, values, 1, w=weights)[1], abs=1e-6)


def test_soft_f1_by_hand() -> None:
    ours = found((0, 0, 10, 10), (50, 50, 10, 10))
    agreed = SoftBoxes(
        boxes=np.array([[0, 0, 10, 10], [80, 80, 10, 10]], np.float32),
        classes=np.zeros(2, np.int64),
        weights=np.array([0.5, 1.0], np.float32),
    )
    score = TASK.score(ours, agreed, None)
    assert (score.right, score.total) == (2 * 0.5, 2 + 1.5)


def test_a_box_of_another_class_is_wrong() -> None:
    assert TASK.score(found((0, 0, 9, 9), classes=[1]), found((0, 0, 9, 9), classes=[2]), None).right == 0.0


def test_what_most_frames_see_is_right_though_one_misses_it_and_another_sees_more() -> None:
    here, ghost = (10, 10, 20, 20), (60, 60, 20, 20)
    window = [found(here), found(here), found(), found(here, ghost), found(here)]
    agreed = TASK.consensus(window, 2)
    assert agreed.boxes.tolist() == [list(here)]
    assert agreed.weights.tolist() == [1.0]


def test_an_object_that_moves_is_where_its_line_is() -> None:
    window = (
        [found((4.0 * t, 10, 20, 20)) for t in (0, 1, 2)] + [found()] + [found((4.0 * t, 10, 20, 20)) for t in (4, 5)]
    )
    agreed = TASK.consensus(window, 3)
    assert agreed.boxes[0] == pytest.approx([12.0, 10, 20, 20], abs=1e-3)


def test_only_what_moved_counts_where_things_move() -> None:
    before, now = found((0, 0, 20, 20), (50, 50, 20, 20)), found((0, 0, 20, 20), (60, 50, 20, 20))
    score = TASK.score(found((0, 0, 20, 20), (50, 50, 20, 20)), now, before)
    assert (score.moving_right, score.moving_total) == (0.0, 2.0)
    assert (score.right, score.total) == (2.0, 4.0)


BOX = st.tuples(*[st.integers(0, 80)] * 2, *[st.integers(5, 20)] * 2)


@given(st.lists(BOX, max_size=5), st.lists(BOX, max_size=5))
def test_right_is_never_more_than_all_and_equal_answers_are_all_right(one: list, other: list) -> None:
    score = TASK.score(found(*one), found(*other), found(*other[:2]))
    assert 0 <= score.right <= score.total
    assert 0 <= score.moving_right <= score.moving_total <= score.total
    same = TASK.score(found(*one), found(*one), None)
    assert same.right == pytest.approx(same.total)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), threshold=st.floats(0.15, 0.95))
def test_what_is_decoded_to_be_judged_holds_what_the_user_gets(seed: int, threshold: float) -> None:
    card = ModelCard(name="cells", input_size=(64, 96), decoder=FastestDet())
    outputs = {"cells": np.random.default_rng(seed).random((1, 8, 4, 6), np.float32)}
    selection = Selection(score_threshold=threshold, classes=frozenset({0, 2}), region=(0.0, 0.0, 0.8, 1.0))
    task = BoxDecisions(card, selection)
    assert task.reported(task.decoded(outputs, (48, 48))) == decode(outputs, card, (48, 48), None, selection)
