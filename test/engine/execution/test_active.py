# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Masks are resized so that no active pixel is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.execution.active import pooled


@pytest.mark.parametrize("side", [2, 8, 32, 100])
def test_a_single_pixel_of_a_large_cell_counts(side: int) -> None:
    mask = np.zeros((2 * side, 3 * side), np.uint8)
    mask[-1, side] = 1
    assert pooled(mask, (2, 3)).tolist() == [[0, 0, 0], [0, 1, 0]]


@given(factor=st.tuples(st.integers(1, 5), st.integers(1, 5)), seed=st.integers(0, 99))
def test_a_cell_is_active_where_any_of_its_pixels_is(factor: tuple[int, int], seed: int) -> None:
    mask = (np.random.default_rng(seed).random((4 * factor[0], 6 * factor[1])) < 0.1).astype(np.uint8)
    expected = mask.reshape(4, factor[0], 6, factor[1]).any((1, 3))
    assert np.array_equal(pooled(mask, (4, 6)), expected)
