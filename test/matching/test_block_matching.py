# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Block matching finds motion, and follows the steps of its algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matchers import WITH_ONE_SHIFT, matcher_named
from numpy.typing import NDArray
from strategies import shifted, textured

from cacheinf_ros.errors import MatchingError
from cacheinf_ros.matching import MatcherName, MatchingConfig, make_matcher

SEARCHING = ["diamond_optimised", "diamond", "exhaustive"]

OPTIMISED = MatchingConfig(matcher=MatcherName.DIAMOND_OPTIMISED)


@pytest.mark.parametrize("matcher", SEARCHING)
@given(seed=st.integers(0, 9), dx=st.integers(-5, 5), dy=st.integers(-5, 5))
def test_a_known_shift_is_found(matcher: str, seed: int, dx: int, dy: int) -> None:
    image = textured(seed, 120, 160, blur=8.0)
    cache_map = matcher_named(matcher, MatchingConfig(threshold=40.0, search_range=8)).match(
        image, shifted(image, dx, dy)
    )
    assert cache_map.motion.shift == (dx, dy)
    assert cache_map.reusable[1:-1, 1:-1].all()
    entering = np.zeros((12, 16), np.bool_)
    if dx:
        entering[:, 0 if dx > 0 else -1] = True
    if dy:
        entering[0 if dy > 0 else -1] = True
    assert np.array_equal(~cache_map.reusable, entering)


@pytest.mark.parametrize("matcher", [*WITH_ONE_SHIFT, "deepmon", "auto"])
def test_what_changed_is_active_and_nothing_else(matcher: str) -> None:
    image = textured(1, 60, 80)
    frame = image.copy()
    frame[20:30, 40:50] = 255 - frame[20:30, 40:50]
    cache_map = matcher_named(matcher, MatchingConfig(threshold=30.0)).match(image, frame)
    assert np.argwhere(~cache_map.reusable).tolist() == [[2, 4]]
    assert cache_map.motion.is_none


@pytest.mark.parametrize("matcher", [*WITH_ONE_SHIFT, "deepmon", "auto"])
@pytest.mark.parametrize("shape", [(16, 16, 3), (10, 10, 3), (1, 1, 3), (5, 200), (33, 17, 1), (2160, 3840, 3)])
def test_images_of_all_sizes_without_texture(matcher: str, shape: tuple[int, ...]) -> None:
    if matcher == "exhaustive":
        shape = tuple(min(side, 300) for side in shape)
    for value in (0, 255):
        image = np.full(shape, value, np.uint8)
        cache_map = matcher_named(matcher, MatchingConfig()).match(image, image)
        assert cache_map.reuse_ratio == 1
        assert cache_map.motion.is_none
        assert cache_map.image_size == shape[:2]
    assert matcher_named(matcher, MatchingConfig()).match(image, 0 * image).reuse_ratio == 0


def test_a_change_of_colour_alone_counts() -> None:
    grey = np.full((20, 20, 3), 100, np.uint8)
    coloured = grey + np.array([100, 0, 0], np.uint8)
    assert make_matcher(OPTIMISED).match(grey, coloured).reuse_ratio == 0


def test_only_every_kth_block_decides_the_mean_movement() -> None:
    image = textured(2, 80, 80, blur=8.0)
    frame = shifted(image, 3, 0)
    frame[::10] = image[::10]  # a line of each block stays: the threshold still holds
    for row in range(0, 80, 20):
        for column in range(0, 80, 20):
            frame[row : row + 10, column : column + 10] = image[row : row + 10, column : column + 10]
    skipping, thorough = (
        make_matcher(OPTIMISED.changed(k_skip=k, search_range=6, threshold=30.0)).match(image, frame) for k in (2, 1)
    )
    assert skipping.motion.is_none
    assert not thorough.motion.is_none


@pytest.mark.parametrize(
    ("reference", "frame", "complaint"),
    [
        (np.zeros((4, 4, 3), np.float32), np.zeros((4, 4, 3), np.float32), "float32"),
        (np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8), r"\(4, 5, 3\)"),
        (np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4), np.uint8), "differ in shape"),
        (np.zeros((0, 4, 3), np.uint8), np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
        (np.zeros((4, 4, 3, 1), np.uint8), np.zeros((4, 4, 3, 1), np.uint8), r"\(4, 4, 3, 1\)"),
        (np.zeros((4, 4, 5), np.uint8), np.zeros((4, 4, 5), np.uint8), "4 channels"),
        ("image.png", np.zeros((4, 4, 3), np.uint8), "str"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    reference: NDArray[np.uint8], frame: NDArray[np.uint8], complaint: str
) -> None:
    with pytest.raises(MatchingError, match=complaint):
        make_matcher(OPTIMISED).match(reference, frame)
