# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""PSNR equals numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plain_matching import psnr

from cacheinf_ros.matching.block_matching import allowed_error


@pytest.mark.parametrize(
    ("difference", "expected_db"),
    [(1, 48.1308), (10, 28.1308), (25.5, 20.0), (255, 0.0)],  # 20 log10(255 / difference)
)
def test_a_constant_difference(difference: float, expected_db: float) -> None:
    assert -10 * math.log10(difference**2 / 255**2) == pytest.approx(expected_db, abs=1e-4)
    assert allowed_error(expected_db) == pytest.approx(difference**2, rel=1e-4)
    if float(difference).is_integer():
        first = np.zeros((4, 5, 3), np.uint8)
        assert psnr(first, first + np.uint8(difference)) == pytest.approx(expected_db, abs=1e-4)


def test_one_pixel_of_four_by_sixteen() -> None:
    first = np.full((2, 2), 100, np.uint8)
    second = first.copy()
    second[0, 0] = 84
    assert psnr(first, second) == pytest.approx(10 * math.log10(65025 / 64))  # 16^2 / 4 = 64
    assert psnr(first, second) == psnr(second, first)


def test_equal_blocks_and_the_threshold_that_asks_for_them() -> None:
    block = np.arange(9, dtype=np.uint8).reshape(3, 3)
    assert psnr(block, block) == math.inf
    assert allowed_error(math.inf) == 0
    assert allowed_error(100.0) * 128 * 128 * 4 < 1  # so 100 dB already lets no byte differ


def test_bytes_do_not_wrap_around() -> None:
    assert psnr(np.array([[0]], np.uint8), np.array([[255]], np.uint8)) == pytest.approx(0.0)
