# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""In pictures of black and white alone, each pixel that changes counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.matching.matching_stream import OTHER_LEVELS, is_black_and_white

SIZE = (60, 80)


def grid(seed: int = 0) -> NDArray[np.uint8]:
    occupied = np.random.default_rng(seed).random(SIZE) < 0.1
    return np.repeat(np.where(occupied, 255, 0).astype(np.uint8)[..., None], 3, axis=2)


@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    channels=st.sampled_from([(), (1,), (3,)]),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**31),
)
def test_one_grey_value_anywhere_is_noticed(
    height: int, width: int, channels: tuple[int, ...], share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    image = np.where(rng.random((height, width, *channels)) < share, 255, 0).astype(np.uint8)
    assert is_black_and_white(image) is (True if image.min() < image.max() else None)
    image.flat[rng.integers(image.size)] = rng.integers(1, 255)
    assert is_black_and_white(image) is is_black_and_white(image[:, ::-1]) is False


@pytest.mark.parametrize("matcher", MatcherName)
@pytest.mark.parametrize("block_size", [8, 10, 32])
def test_a_single_cell_that_changes_is_found(matcher: MatcherName, block_size: int) -> None:
    """In a block of 10 x 10 it is 20 dB, the default threshold, and in one of 32 x 32 it is 30 dB."""
    stream = MatchingStream(MatchingConfig(matcher=matcher, block_size=block_size))
    before, after = grid(), grid()
    after[33, 41] = 255 - after[33, 41]
    stream.match(before)
    assert stream.match(before).reuse_ratio == 1.0
    found = stream.match(after)
    assert not found.reusable[33 // block_size, 41 // block_size]
    assert found.reuse_ratio > 0.4


def test_a_camera_that_follows_is_compared_as_configured() -> None:
    stream = MatchingStream(MatchingConfig(matcher=MatcherName.IDENTITY))
    photograph = np.random.default_rng(1).integers(0, 256, (*SIZE, 3), np.uint8)
    brighter = np.clip(photograph.astype(np.int16) + 2, 0, 255).astype(np.uint8)
    stream.match(grid())
    assert stream.match(photograph).reason == OTHER_LEVELS
    assert stream.match(brighter).reuse_ratio == 1.0
    assert stream.match(grid()).reason == OTHER_LEVELS
    stream.reconfigure(MatchingConfig(matcher=MatcherName.IDENTITY, threshold=5.0))
    changed = grid()
    changed[5, 5] = 255 - changed[5, 5]
    assert not stream.match(changed).reusable[0, 0]


@pytest.mark.parametrize("level", [0, 255])
def test_a_picture_of_one_level_says_nothing(level: int) -> None:
    """A grid without a point is compared with others as they are; a camera in the dark or in glare, as it was."""
    plain = np.full((*SIZE, 3), level, np.uint8)
    stream = MatchingStream(MatchingConfig(matcher=MatcherName.IDENTITY))
    stream.match(grid())
    found = stream.match(plain)
    blocks = (
        grid().reshape(6, 10, 8, 10, 3).max(axis=(1, 3, 4))
        if level == 0
        else 255 - grid().reshape(6, 10, 8, 10, 3).min(axis=(1, 3, 4))
    )
    np.testing.assert_array_equal(found.reusable, blocks == 0)
    assert stream.match(plain).reuse_ratio == 1.0
    one = plain.copy()
    one[5, 5] = 255 - level
    assert not stream.match(one).reusable[0, 0]
    camera = MatchingStream(MatchingConfig(matcher=MatcherName.IDENTITY))
    grey = plain.copy()
    grey[30, 30] = abs(level - 5)
    camera.match(grey)
    assert camera.match(plain).reuse_ratio == camera.match(grey).reuse_ratio == 1.0
