# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How much a picture changed, measured on thumbnails."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.pipeline.picture_change import Change, ChangeMeter

METER = ChangeMeter((352, 352))


@given(st.integers(2, 700), st.integers(2, 700), st.integers(0, 255))
def test_the_same_picture_did_not_change_whatever_its_size(height: int, width: int, level: int) -> None:
    thumbnail = METER.thumbnail(np.full((height, width, 3), level, np.uint8))
    assert thumbnail.shape == (88, 88, 3)
    assert METER.between(thumbnail, thumbnail) == Change(largest=0.0, mean=0.0)


def test_a_small_object_is_seen_in_its_place_and_light_all_over() -> None:
    empty = np.full((480, 640, 3), 100, np.uint8)
    with_object, brighter = empty.copy(), empty + 5
    with_object[200:240, 300:340] = 250
    before = METER.thumbnail(empty)
    came, light = METER.between(before, METER.thumbnail(with_object)), METER.between(before, METER.thumbnail(brighter))
    assert came.largest > 100 > light.largest
    assert light.mean == 5.0 > came.mean


def test_noise_is_averaged_away() -> None:
    rng = np.random.default_rng(1)
    one, other = (
        METER.thumbnail(np.clip(rng.normal(100, 5, (480, 640, 3)), 0, 255).astype(np.uint8)) for _ in range(2)
    )
    assert METER.between(one, other).largest < 8


def test_a_limit_bounds_both_figures() -> None:
    limit = Change(largest=10, mean=1)
    assert Change(largest=10, mean=1).within(limit)
    assert not Change(largest=11, mean=0).within(limit)
    assert not Change(largest=0, mean=2).within(limit)


@given(st.integers(60, 700), st.integers(60, 700), st.integers(0, 2**32 - 1), st.booleans())
def test_opencv_finds_the_same(height: int, width: int, seed: int, is_smooth: bool) -> None:
    rng = np.random.default_rng(seed)
    images = [rng.integers(0, 256, (height, width, 3), np.uint8) for _ in range(2)]
    if is_smooth:
        images = [cv2.GaussianBlur(image, (0, 0), 4) for image in images]
    thumbnails = [METER.thumbnail(image) for image in images]
    for image, thumbnail in zip(images, thumbnails, strict=True):
        sampled = image[np.arange(176) * height // 176][:, np.arange(176) * width // 176]
        np.testing.assert_array_equal(thumbnail, cv2.resize(sampled, (88, 88), interpolation=cv2.INTER_AREA))
    expected = cv2.blur(cv2.absdiff(*thumbnails), (5, 5)).astype(int)
    change, places = METER.compare(*thumbnails)
    assert np.abs(places - expected.max(2)).max() <= 1  # OpenCV rounds differently
    assert change.largest == places.max()
    assert change.mean == pytest.approx(expected.mean(), abs=0.5)
