# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of non-maximum suppression, with boxes worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.accuracy import box_iou
from cacheinf_ros.engine.decoders.suppress import best_class, suppress

BOXES = np.array([[0, 0, 10, 10], [1, 0, 10, 10], [30, 30, 5, 5]], np.float32)


def suppressed(scores, classes, boxes=BOXES):
    found = (boxes, np.array(scores, np.float32), np.array(classes, np.int64))
    found = suppress(found, score_threshold=0.5, iou_threshold=0.45)
    return [(round(float(score), 2), int(kind)) for score, kind in zip(*found[1:], strict=True)]


def test_the_best_of_overlapping_boxes_stays() -> None:
    assert suppressed([0.7, 0.9, 0.8], [0, 0, 0]) == [(0.9, 0), (0.8, 0)]


def test_other_classes_are_left_alone() -> None:
    assert suppressed([0.7, 0.9, 0.8], [1, 0, 0]) == [(0.9, 0), (0.8, 0), (0.7, 1)]


def test_low_scores_are_dropped() -> None:
    assert suppressed([0.4, 0.3, 0.6], [0, 0, 0]) == [(0.6, 0)]
    assert suppressed([], [], BOXES[:0]) == []


@pytest.mark.parametrize("threshold", [0.0, 0.25, 0.4, 0.5, 1.0])
def test_a_score_that_is_the_threshold_is_not_below_it(threshold: float) -> None:
    """Networks in int8 give scores on a grid, on which thresholds often lie."""
    found = (BOXES[:1], np.array([threshold], np.float32), np.array([0]))
    assert len(suppress(found, score_threshold=threshold, iou_threshold=0.45)[1]) == 1


def test_the_background_is_no_class() -> None:
    scores, classes = best_class(np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]), background=0)
    assert np.allclose(scores, [0.1, 0.5]) and classes.tolist() == [1, 2]


@given(st.integers(0, 99))
def test_what_stays_overlaps_little_and_what_goes_overlaps_something_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = rng.uniform(1, 40, (12, 4)).astype(np.float32)
    scores, classes = rng.uniform(0.5, 1, 12).astype(np.float32), rng.integers(0, 2, 12)
    kept, kept_scores, kept_classes = suppress((boxes, scores, classes), score_threshold=0.5, iou_threshold=0.45)
    same = kept_classes[:, None] == kept_classes[None]
    overlaps = box_iou(kept, kept) * same
    assert (overlaps[~np.eye(len(kept), dtype=bool)] <= 0.45 + 1e-6).all()
    for box, score, kind in zip(boxes, scores, classes, strict=True):
        rivals = box_iou(box[None], kept)[0] * ((kept_classes == kind) & (kept_scores >= score))
        assert rivals.max() > 0.45 - 1e-6
