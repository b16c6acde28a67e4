# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of decoding centres to boxes, with numbers worked out by hand and boxes that are encoded and read back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.decoders.centers import decode_centers
from cacheinf_ros.errors import EngineError


def silence(classes=3, height=6, width=8):
    output = np.zeros((1, classes + 4, height, width), np.float32)
    output[0, :classes] = -10
    return output


def test_worked_example():
    output = silence()
    output[0, 1, 2, 5] = 2.0  # class 1 at row 2, column 5; sigmoid(2) = 0.8808
    output[0, 3:, 2, 5] = 0.25, 0.5, np.log(4), np.log(2)
    boxes, scores, classes = decode_centers(output, stride=8, score_threshold=0.4)
    # centre (5.25, 2.5) * 8 = (42, 20), size (32, 16)
    np.testing.assert_allclose(boxes, [[26, 12, 32, 16]], rtol=1e-6)
    np.testing.assert_allclose(scores, [0.8808], atol=1e-4)
    assert classes.tolist() == [1]
    assert (boxes.dtype, scores.dtype, classes.dtype) == (np.float32, np.float32, np.int64)


def test_nothing_found():
    boxes, scores, classes = decode_centers(silence(), stride=8, score_threshold=0.4)
    assert boxes.shape == (0, 4) and scores.shape == (0,) and classes.shape == (0,)


def test_best_first_and_only_the_top_of_each_hill():
    output = silence()
    output[0, 0, 1:4, 1:4] = [[0.1, 1, 0.1], [1, 3, 1], [0.1, 1, 0.1]]
    output[0, 2, 5, 7] = 4.0  # in the corner
    output[0, 2, 0, 0] = 1.0
    _, scores, classes = decode_centers(output, stride=8, score_threshold=0.5)
    assert classes.tolist() == [2, 0, 2]
    np.testing.assert_allclose(scores, 1 / (1 + np.exp([-4, -3, -1])), rtol=1e-5)


def test_a_plateau_gives_one_box():
    output = silence()
    output[0, 0, 2, 3:5] = 1.5
    assert len(decode_centers(output, stride=8, score_threshold=0.5)[0]) == 1


@pytest.mark.parametrize(("threshold", "count"), [(0.0, 1), (0.7, 1), (0.74, 0), (1.0, 0)])
def test_threshold(threshold, count):
    output = np.full((1, 5, 3, 3), -5.0, np.float32)
    output[0, 0, 1, 1] = 1.0  # sigmoid(1) = 0.731
    assert len(decode_centers(output, stride=8, score_threshold=threshold)[0]) == count


@given(
    cells=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8),
    stride=st.sampled_from([4, 8, 16]),
    seed=st.integers(0, 99),
)
def test_boxes_written_in_are_read_back(cells, stride, seed):
    rng = np.random.default_rng(seed)
    output = silence(classes=2, height=8, width=8)
    expected = {}
    for row, column in cells:  # two cells apart, so that all are peaks
        offset, size, class_id = rng.uniform(0, 1, 2), rng.uniform(1, 90, 2), int(rng.integers(2))
        output[0, class_id, 2 * row, 2 * column] = rng.uniform(1, 5)
        output[0, 2:, 2 * row, 2 * column] = [*offset, *np.log(size / stride)]
        centre = (np.array([2 * column, 2 * row]) + offset) * stride
        expected[class_id, tuple(np.round(centre, 2))] = [*(centre - size / 2), *size]
    boxes, scores, classes = decode_centers(output, stride=stride, score_threshold=0.5)
    assert len(boxes) == len(cells) and (np.diff(scores) <= 0).all()
    for box, class_id in zip(boxes, classes, strict=True):
        nearest = min(np.abs(box - other).max() for (kind, _), other in expected.items() if kind == class_id)
        assert nearest < 1e-2


@pytest.mark.parametrize("shape", [(1, 4, 6, 8), (2, 9, 6, 8), (9, 6, 8)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(EngineError, match="holds no centres"):
        decode_centers(np.zeros(shape, np.float32), stride=8, score_threshold=0.4)
