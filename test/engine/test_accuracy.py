# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of detection scores, with numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine import Box
from cacheinf_ros.engine.accuracy import Detections, DetectionScore, box_iou, score_frame, score_sequence
from cacheinf_ros.sources import open_source


def detections(*rows):
    """Build detections from rows of (x, y, width, height, class, score)."""
    table = np.array(rows, np.float32).reshape(-1, 6)
    return Detections(boxes=table[:, :4], classes=table[:, 4].astype(np.int64), scores=table[:, 5])


def counts(found, expected, iou_threshold=0.5):
    score = score_frame(found, expected, iou_threshold)
    return score.true_positives, score.false_positives, score.false_negatives


def test_iou_by_hand():
    boxes = np.array([[0, 0, 10, 10], [5, 0, 10, 10], [20, 20, 5, 5], [2, 2, 5, 4]], np.float32)
    expected = [[1, 50 / 150, 0, 20 / 100], [50 / 150, 1, 0, 8 / 112], [0, 0, 1, 0], [20 / 100, 8 / 112, 0, 1]]
    np.testing.assert_allclose(box_iou(boxes, boxes), expected)
    assert box_iou(boxes, boxes[:0]).shape == (4, 0)
    np.testing.assert_array_equal(box_iou(np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32)), [[0]])


def test_class_and_overlap_must_both_agree():
    truth = detections((0, 0, 10, 10, 0, 1), (50, 50, 10, 10, 1, 1))
    assert counts(truth, truth) == (2, 0, 0)
    assert counts(detections((0, 0, 10, 10, 1, 0.9)), truth) == (0, 1, 2)  # wrong class
    # shifted by 3: 70 / 130 = 0.54; by 4: 60 / 140 = 0.43
    assert counts(detections((3, 0, 10, 10, 0, 0.9)), truth) == (1, 0, 1)
    assert counts(detections((4, 0, 10, 10, 0, 0.9)), truth) == (0, 1, 2)
    assert counts(detections((4, 0, 10, 10, 0, 0.9)), truth, iou_threshold=0.4) == (1, 0, 1)


def test_an_object_is_found_only_once():
    truth = detections((0, 0, 10, 10, 0, 1))
    assert counts(detections((0, 0, 10, 10, 0, 0.8), (1, 0, 10, 10, 0, 0.9)), truth) == (1, 1, 0)


def test_the_best_score_chooses_first():
    truth = detections((0, 0, 10, 10, 0, 1), (4, 0, 10, 10, 0, 1))
    # the box at 2 overlaps both with 80 / 120; the box at 0 only reaches 0.5 with the first
    sure_between = detections((0, 0, 10, 10, 0, 0.5), (2, 0, 10, 10, 0, 0.9))
    sure_left = detections((0, 0, 10, 10, 0, 0.9), (2, 0, 10, 10, 0, 0.5))
    assert counts(sure_between, truth) == (1, 1, 1)
    assert counts(sure_left, truth) == (2, 0, 0)


def test_f1_by_hand():
    score = DetectionScore(true_positives=6, false_positives=2, false_negatives=4)
    assert score.precision == 6 / 8 and score.recall == 6 / 10
    assert score.f1 == pytest.approx(2 * 0.75 * 0.6 / 1.35) == pytest.approx(12 / 18)


def test_where_there_is_nothing():
    nothing, one = detections(), detections((0, 0, 10, 10, 0, 1))
    assert score_frame(nothing, nothing).f1 == 1
    assert score_frame(nothing, one).f1 == 0 and score_frame(nothing, one).recall == 0
    assert score_frame(one, nothing).f1 == 0 and score_frame(one, nothing).precision == 0
    assert score_sequence([]).f1 == 1


def test_a_sequence_adds_up_counts_not_scores():
    one = detections((0, 0, 10, 10, 0, 1))
    three = detections((0, 0, 10, 10, 0, 1), (20, 0, 10, 10, 0, 1), (40, 0, 10, 10, 0, 1))
    total = score_sequence([(one, one), (one, three)])
    assert total == DetectionScore(true_positives=2, false_negatives=2)
    assert total.f1 == pytest.approx(4 / 6)


boxes = st.lists(
    st.tuples(*[st.integers(0, 60)] * 2, *[st.integers(1, 40)] * 2, st.integers(0, 2), st.floats(0.125, 1, width=32)),
    max_size=8,
)


@given(found=boxes, expected=boxes)
def test_counts_are_consistent(found, expected):
    score = score_frame(detections(*found), detections(*expected))
    assert score.true_positives + score.false_positives == len(found)
    assert score.true_positives + score.false_negatives == len(expected)
    assert 0 <= score.f1 <= 1
    assert score_frame(detections(*found), detections(*found)).f1 == 1


def test_truth_of_a_scene():
    scene = open_source("scene:fixed?seed=1&frames=3")
    truth = scene.truth(2)
    ideal = Detections.of_truth(truth)
    assert len(ideal.boxes) == len(truth.objects) == len(ideal.classes) == len(ideal.scores)
    first = truth.objects[0]
    assert ideal.boxes[0].tolist() == [first.x, first.y, first.width, first.height]
    assert Detections.of_truth(open_source("scene:fixed?objects=0").truth(0)).boxes.shape == (0, 4)


def test_boxes_of_a_decoder():
    found = Detections.of_boxes([Box(x=1, y=2, width=3, height=4, class_id=5, name="five", score=0.5)])
    assert found.boxes.tolist() == [[1, 2, 3, 4]] and found.classes.tolist() == [5] and found.scores.tolist() == [0.5]
    assert Detections.of_boxes([]).boxes.shape == (0, 4)
