# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the matching stream: whose pixels the reference holds, and when it is dropped."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from plain_matching import psnr
from strategies import block_grids, image_streams, matching_configs, shifted, textured

from cacheinf_ros.cache_map import CacheMap, Motion, compose
from cacheinf_ros.errors import MatchingError
from cacheinf_ros.geometry import compose_image
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream


def held(matching: MatchingStream) -> NDArray[np.uint8]:
    assert matching.reference is not None
    return matching.reference


def plainly_composed(reference: NDArray[np.uint8], frame: NDArray[np.uint8], cache_map: CacheMap) -> NDArray[np.uint8]:
    dx, dy = map(int, cache_map.motion.shift or (0, 0))
    expected = frame.copy()
    for y, x in zip(*np.nonzero(cache_map.reusable_mask), strict=True):
        assert min(y - dy, x - dx) >= 0
        expected[y, x] = reference[y - dy, x - dx]
    return expected


@given(stream=image_streams(frames=4, largest=32), config=matching_configs())
def test_the_reference_is_the_frame_where_active_and_the_moved_reference_elsewhere(
    stream: list[NDArray[np.uint8]], config: MatchingConfig
) -> None:
    matching = MatchingStream(config)
    reference = np.zeros_like(stream[0])
    for frame in stream:
        given_away = frame.copy()
        cache_map = matching.match(given_away)
        given_away[:] = 0
        reference = plainly_composed(reference, frame, cache_map)
        assert np.array_equal(held(matching), reference)


@given(stream=image_streams(frames=5), config=matching_configs(matcher=MatcherName.IDENTITY))
def test_identical_blocks_only_leave_exactly_the_frame(stream: list[NDArray[np.uint8]], config: MatchingConfig) -> None:
    matching = MatchingStream(config.changed(threshold=math.inf))
    for frame in stream:
        matching.match(frame)
        assert np.array_equal(held(matching), frame)


@given(stream=image_streams(frames=4), config=matching_configs(matcher=MatcherName.IDENTITY, threshold=math.inf))
def test_folded_maps_of_identical_blocks_show_nothing_that_changed(
    stream: list[NDArray[np.uint8]], config: MatchingConfig
) -> None:
    matching = MatchingStream(config.changed(expiry=100))
    maps = [matching.match(frame) for frame in stream]
    folded = compose(compose(maps[1], maps[2]), maps[3])
    direct = MatchingStream(config)
    direct.match(stream[0])
    straight = direct.match(stream[3])
    assert not (folded.reusable & ~straight.reusable).any()
    unchanged = np.logical_and.reduce([cache_map.reusable for cache_map in maps[1:]])
    assert np.array_equal(folded.reusable, unchanged)


@pytest.mark.parametrize("expiry", [1, 3])
def test_the_reference_expires_after_so_many_matched_frames(expiry: int) -> None:
    image = textured(0, 30, 40)
    matching = MatchingStream(MatchingConfig(expiry=expiry))
    reasons = [matching.match(image).reason for _ in range(2 * expiry + 3)]
    assert reasons == ["first frame", *[""] * expiry, "expired", *[""] * expiry, "expired"]


def test_slow_change_does_not_slip_through() -> None:
    image = np.full((20, 20, 3), 50, np.uint8)
    matching = MatchingStream(MatchingConfig(matcher=MatcherName.IDENTITY, threshold=30.0, expiry=1000))
    updates = 0
    for step in range(60):
        frame = image + np.uint8(step)
        updates += matching.match(frame).reuse_ratio == 0
        assert psnr(held(matching), frame) >= 30
    assert 1 < updates < 60


def test_a_change_of_size_or_channels_starts_anew() -> None:
    matching = MatchingStream(MatchingConfig())
    matching.match(textured(0, 30, 40))
    changed = matching.match(textured(0, 20, 50))
    assert changed.reason == "image size changed from 40x30x3 to 50x20x3"
    assert changed.image_size == (20, 50)
    assert matching.match(textured(0, 20, 50)).reuse_ratio == 1
    assert matching.match(textured(0, 20, 50, 0)).reason == "image size changed from 50x20x3 to 50x20"


def test_reset_says_why_and_forgets() -> None:
    image = textured(0, 30, 40)
    matching = MatchingStream(MatchingConfig())
    assert matching.reference is None
    matching.match(image)
    matching.reset("time went backwards")
    assert matching.reference is None
    assert matching.match(image).reason == "time went backwards"
    assert matching.match(image).reuse_ratio == 1


def test_an_unusable_image_leaves_the_reference_as_it_was() -> None:
    image = textured(0, 30, 40)
    matching = MatchingStream(MatchingConfig())
    matching.match(image)
    with pytest.raises(MatchingError):
        matching.match(image.astype(np.float32))
    assert np.array_equal(held(matching), image)
    assert matching.match(image).reuse_ratio == 1


def test_reconfiguring_keeps_the_reference() -> None:
    image = textured(0, 30, 40)
    matching = MatchingStream(MatchingConfig(expiry=2))
    matching.match(image)
    matching.reconfigure(matching.config.changed(block_size=5, threshold=math.inf, matcher="identity"))
    moved = shifted(image, 1, 0)
    assert matching.match(moved).reusable.shape == (6, 8)
    assert np.array_equal(held(matching), moved)
    assert matching.match(moved).reuse_ratio == 1
    matching.reconfigure(matching.config.changed(expiry=1))
    assert matching.match(moved).reason == "expired"


def test_the_reference_cannot_be_written_to() -> None:
    matching = MatchingStream(MatchingConfig())
    matching.match(textured(0, 30, 40))
    with pytest.raises(ValueError, match="read-only"):
        held(matching)[0, 0] = 1


def test_two_streams_are_independent() -> None:
    first, second = MatchingStream(MatchingConfig()), MatchingStream(MatchingConfig(expiry=1))
    first.match(textured(0, 30, 40))
    assert second.match(textured(1, 30, 40)).reason == "first frame"
    assert first.match(textured(0, 30, 40)).reuse_ratio == 1


@given(data=st.data(), dx=st.integers(-12, 12), dy=st.integers(-12, 12))
def test_a_map_that_looks_outside_the_reference_is_refused(data: st.DataObject, dx: int, dy: int) -> None:
    image = textured(0, 30, 40)
    grid = data.draw(block_grids((3, 4)))
    cache_map = CacheMap.of_blocks(grid, (30, 40), 10, Motion.translation(dx, dy))
    y, x = np.nonzero(cache_map.reusable_mask)
    outside = ((y - dy < 0) | (y - dy >= 30) | (x - dx < 0) | (x - dx >= 40)).any()
    out = np.empty_like(image)
    if outside:
        with pytest.raises(MatchingError, match="outside"):
            compose_image(image, image, cache_map, out)
    else:
        compose_image(image, 255 - image, cache_map, out)
        assert np.array_equal(out, plainly_composed(image, 255 - image, cache_map))


def test_a_motion_between_pixels_or_a_map_of_another_size_is_refused() -> None:
    image = textured(0, 30, 40)
    out = np.empty_like(image)
    with pytest.raises(MatchingError, match="whole pixels"):
        compose_image(image, image, CacheMap.of_blocks(np.ones((3, 4), np.bool_), (30, 40), 10,
                                                       Motion.translation(0.5, 0)), out)  # fmt: skip
    with pytest.raises(MatchingError, match="does not fit"):
        compose_image(image, image, CacheMap.nothing((30, 41), 10), out)
