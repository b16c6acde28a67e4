# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The overlay shows what the cache map says."""

from __future__ import annotations

import numpy as np
import pytest

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.errors import MatchingError
from cacheinf_ros.matching import draw_overlay
from cacheinf_ros.matching.overlay import ARROW, REUSED


def half_reusable(motion: Motion) -> CacheMap:
    grid = np.zeros((20, 40), np.bool_)
    grid[:, :20] = True
    return CacheMap.of_blocks(grid, (200, 400), 10, motion)


def test_reused_area_is_tinted_and_recomputed_area_clear() -> None:
    image = np.full((200, 400, 3), 128, np.uint8)
    before = image.copy()
    picture = draw_overlay(image, half_reusable(Motion.none()))
    assert picture.shape == image.shape
    assert np.array_equal(image, before)
    assert (picture[100, 300] == 128).all()
    towards = np.sign(np.array(REUSED, np.int64) - 128)
    assert np.array_equal(np.sign(picture[100, 100].astype(np.int64) - 128), towards)


def test_the_arrow_points_where_the_motion_leads() -> None:
    image = np.zeros((200, 400, 3), np.uint8)
    picture = draw_overlay(image, half_reusable(Motion.translation(6, 0)))
    columns = np.nonzero((picture == ARROW).all(axis=2))[1]
    assert columns.max() > 230
    assert columns.min() > 190
    assert not (draw_overlay(image, half_reusable(Motion.none())) == ARROW).all(axis=2).any()


@pytest.mark.parametrize("shape", [(16, 16, 3), (1, 1, 3), (16, 16), (16, 16, 1), (16, 16, 4), (50, 7, 3)])
@pytest.mark.parametrize("reason", ["", "expired"])
def test_any_image_gets_a_colour_picture(shape: tuple[int, ...], reason: str) -> None:
    image = np.zeros(shape, np.uint8)
    image.flags.writeable = False
    picture = draw_overlay(image, CacheMap.nothing((shape[0], shape[1]), 10, reason))
    assert picture.shape == (*shape[:2], 3)
    assert picture.dtype == np.uint8


def test_a_map_of_another_size_is_refused() -> None:
    with pytest.raises(MatchingError, match="does not fit"):
        draw_overlay(np.zeros((10, 10, 3), np.uint8), CacheMap.nothing((10, 11), 10))
