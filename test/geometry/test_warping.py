# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of pictures seen through a motion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import textured

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.geometry.warping import (
    WarpComparison,
    look_through,
    pooled_difference,
    visible_blocks,
    warp,
    without_islands,
)


@given(dx=st.integers(-25, 25), dy=st.integers(-25, 25))
def test_blocks_are_visible_that_lie_wholly_in_the_moved_picture(dx: int, dy: int) -> None:
    height, width, block = 37, 52, 10
    visible = visible_blocks(Motion.translation(dx, dy), (height, width), block)
    shown = warp(np.full((height, width), 255, np.uint8), Motion.translation(dx, dy)) == 255
    for row in range(4):
        for column in range(6):
            area = shown[row * block : (row + 1) * block, column * block : (column + 1) * block]
            assert visible[row, column] == area.all()


@given(scale=st.floats(0.8, 1.25), tilt=st.floats(-0.1, 0.1), dx=st.floats(-9, 9))
def test_no_block_is_visible_that_is_not_shown(scale: float, tilt: float, dx: float) -> None:
    motion = Motion(matrix=np.array([[scale, tilt, dx], [-tilt, scale, 0], [0, 0, 1]]))
    visible = visible_blocks(motion, (60, 80), 10)
    shown = warp(np.full((60, 80), 255, np.uint8), motion) > 0
    assert not (visible.repeat(10, 0).repeat(10, 1) & ~shown).any()


def test_behind_the_camera_nothing_is_visible() -> None:
    motion = Motion(matrix=np.array([[1, 0, 0], [0, 1, 0], [-0.02, 0, 1.0]]))
    visible = visible_blocks(motion.inverse(), (60, 80), 10)
    assert not visible.all()


def test_looking_through_is_the_opposite_of_warping() -> None:
    image, motion = textured(0, 60, 80), Motion.translation(7, -4)
    assert np.array_equal(look_through(warp(image, motion), motion)[4:, :-7], image[4:, :-7])


@pytest.mark.parametrize("block", [5, 8, 10])
def test_what_is_equal_differs_by_nothing_and_a_small_thing_counts_for_its_block(block: int) -> None:
    image = textured(1, 40, 60)
    assert not pooled_difference(image, image, block).any()
    frame = image.copy()
    frame[0:5, 0:5] ^= 0x80
    difference = pooled_difference(image, frame, block)
    assert difference[0, 0] > 20
    assert not difference[1:].any() and not difference[:, 1:].any()


def test_half_a_pixel_is_no_difference() -> None:
    """An edge between pixels takes values between those of its neighbours."""
    image = textured(2, 60, 80, blur=4.0)
    moved = warp(image, Motion.translation(0.5, 0.5))
    whole = pooled_difference(image, moved, 10)[1:-1, 1:-1]
    assert whole.max() < 6 < pooled_difference(image, np.roll(image, 3, axis=1), 10).max()


def test_comparing_again_and_again_is_comparing_once() -> None:
    """Buffers are reused, pictures with three channels have code of their own, and sizes change."""
    comparison = WarpComparison()
    motion = Motion(matrix=np.array([[1.001, 0.002, 3.3], [-0.002, 1.001, 1.7], [1e-5, 0, 1]]))
    before = None
    for shape in ((60, 80, 3), (60, 80, 3), (60, 80), (50, 70, 3), (50, 70, 4)):
        image, frame = (np.random.default_rng(seed).integers(0, 255, shape, np.uint8) for seed in (0, 1))
        found = comparison.difference(image, frame, motion, 10)
        assert np.array_equal(found, pooled_difference(warp(image, motion), frame, 10))
        assert before is None or np.array_equal(*before)
        before = found, found.copy()


def test_small_areas_amidst_active_ones_are_not_reused() -> None:
    """In a picture of 25 blocks or fewer, nothing was: even where all was as before."""
    assert without_islands(np.ones((4, 5), np.bool_)).all() and without_islands(np.ones((5, 5), np.bool_)).all()
    plain = np.ones((40, 60), np.bool_)
    plain[10:21, 10:21] = False
    plain[13:18, 13:18] = True  # the middle of an object
    found = without_islands(plain)
    assert not found[10:21, 10:21].any() and found[:8].all()
