# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Class maps are compared with drawn ones: numbers worked out by hand, and properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cacheinf_ros.engine.mean_iou import UNJUDGED, count_pixels, drawn_within, mean_iou
from cacheinf_ros.graph import ModelCard


def test_worked_out_by_hand() -> None:
    """Four pixels are known: the maps share 1 of 2 pixels of class 0, 1 of 2 of class 1, and all of class 2."""
    right = np.array([[0, 0, 1], [2, UNJUDGED, UNJUDGED]], np.uint8)
    found = np.array([[0, 1, 1], [2, 3, 0]], np.uint8)
    counts = count_pixels(found, right, 4)
    assert counts.tolist() == [[1, 1, 1, 0], [1, 2, 1, 0], [2, 1, 1, 0]]
    assert mean_iou(counts) == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    without = count_pixels(None, right, 4)
    assert without.tolist() == [[0] * 4, [0] * 4, [2, 1, 1, 0]] and mean_iou(without) == 0.0
    assert mean_iou(count_pixels(found, np.full_like(right, UNJUDGED), 4)) == 1.0


@given(st.tuples(*[arrays(np.uint8, (5, 7), elements=st.integers(0, 4))] * 2))
def test_only_equal_maps_agree_completely(maps: tuple[np.ndarray, np.ndarray]) -> None:
    agreement = mean_iou(count_pixels(*maps, 5))
    assert 0 <= agreement <= 1 and (agreement == 1) == np.array_equal(*maps)
    assert agreement == pytest.approx(mean_iou(count_pixels(*maps[::-1], 5)))


def test_maps_are_shrunk_as_pictures_are() -> None:
    """A wide frame has margins above and below in a letterboxed input, and none in a stretched one."""
    card = ModelCard(name="test", factory="test", input_size=(40, 40))
    right = np.repeat(np.array([[1, 2]], np.uint8), 20, axis=1).repeat(20, axis=0)
    assert np.array_equal(drawn_within(right, card, (2, 4)), [[1, 1, 2, 2]] * 2)
    corners = np.zeros((6, 6), np.uint8)
    corners[1::3, 1::3] = [[1, 2], [3, 4]]
    assert np.array_equal(drawn_within(corners, card, (2, 2)), [[1, 2], [3, 4]])
    letterboxed = card.changed(resize="letterbox")
    assert np.array_equal(drawn_within(right, letterboxed, (4, 4)), [[1, 1, 2, 2]] * 2)


def test_of_two_pictures_the_left_one_was_drawn() -> None:
    card = ModelCard(name="test", factory="test", input_size=(40, 80), pictures=2)
    left = np.repeat(np.array([[1, 2]], np.uint8), 20, axis=1).repeat(40, axis=0)
    whole = np.concatenate((left, np.full_like(left, 7)), axis=1)
    assert np.array_equal(drawn_within(whole, card, (2, 4)), [[1, 1, 2, 2]] * 2)
