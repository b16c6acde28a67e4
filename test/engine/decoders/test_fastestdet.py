# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of decoding FastestDet's cells to boxes, with numbers worked out by hand and boxes that are encoded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.decoders.fastestdet import decode_fastestdet
from cacheinf_ros.graph.decoder_configs import FastestDet

SIZE = (80, 160)


def silence(classes=3, height=5, width=10):
    return np.zeros((1, 5 + classes, height, width), np.float32)


def test_worked_example():
    output = silence()
    output[0, :, 2, 4] = [0.9, np.arctanh(0.5), 0.0, 0.0, -np.log(3), 0.1, 0.8, 0.1]
    boxes, scores, classes = decode_fastestdet(output, FastestDet(), SIZE)
    # centre (4.5 / 10 * 160, 2 / 5 * 80) = (72, 32); width 1/2 of 160, height 1/4 of 80
    assert np.allclose(boxes, [[72 - 40, 32 - 10, 80, 20]], atol=1e-4)
    assert np.allclose(scores, [0.9**0.6 * 0.8**0.4]) and classes.tolist() == [1]


def test_overlapping_boxes_of_one_class_become_one():
    output = silence()
    for column, score in ((3, 0.8), (4, 0.9)):
        output[0, :, 2, column] = [score, 0, 0, 0, 0, 0.9, 0, 0]
    output[0, 1, 2, 3] = np.arctanh(0.9)
    boxes, scores, _ = decode_fastestdet(output, FastestDet(), SIZE)
    assert len(boxes) == 1 and scores[0] == pytest.approx(0.9)


@given(st.integers(0, 4), st.integers(0, 9), st.integers(0, 99))
def test_a_box_that_is_written_in_is_read_back(row: int, column: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shift, share = rng.uniform(-0.95, 0.95, 2), rng.uniform(0.05, 0.95, 2)
    output = silence()
    output[0, 0, row, column], output[0, 7, row, column] = 1, 1
    output[0, 1:3, row, column] = np.arctanh(shift)
    output[0, 3:5, row, column] = np.log(share / (1 - share))
    boxes, scores, classes = decode_fastestdet(output, FastestDet(), SIZE)
    size = share * (160, 80)
    centre = (np.array([column, row]) + shift) * 16
    assert np.allclose(boxes, [[*(centre - size / 2), *size]], atol=1e-2)
    assert scores.tolist() == [1] and classes.tolist() == [2]


@pytest.mark.parametrize("shape", [(1, 5, 3, 3), (2, 8, 3, 3), (8, 3, 3)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="FastestDet gives"):
        decode_fastestdet(np.zeros(shape, np.float32), FastestDet(), SIZE)
