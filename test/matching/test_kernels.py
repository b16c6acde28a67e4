# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The compiled matchers equal plain Python, and blocks that they call reusable really are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matchers import WITH_ONE_SHIFT, matcher_named
from numpy.typing import NDArray
from plain_matching import PlainMatcher, psnr
from strategies import image_streams, matching_configs, shifted, textured

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.geometry import ImagePair
from cacheinf_ros.matching import MatcherName, MatchingConfig, make_matcher
from cacheinf_ros.matching.block_matching import recall, recheck, search_by_diamond, unsettled
from cacheinf_ros.matching.kernels import CHANGED, REUSABLE, UNKNOWN


def assert_same_map(ours: CacheMap, expected: CacheMap) -> None:
    assert np.array_equal(ours.reusable, expected.reusable)
    assert np.array_equal(ours.motion.matrix, expected.motion.matrix)


@settings(deadline=None)
@given(name=st.sampled_from(WITH_ONE_SHIFT), stream=image_streams(frames=2, largest=32), config=matching_configs())
def test_the_compiled_matcher_equals_the_plain_one(
    name: str, stream: list[NDArray[np.uint8]], config: MatchingConfig
) -> None:
    plain = PlainMatcher(name, stream[0], stream[1], config)
    assert_same_map(matcher_named(name, config).match(*stream), plain.match())


@given(name=st.sampled_from(WITH_ONE_SHIFT), stream=image_streams(frames=2), config=matching_configs())
def test_every_reusable_block_has_the_psnr(name: str, stream: list[NDArray[np.uint8]], config: MatchingConfig) -> None:
    reference, frame = stream
    cache_map = matcher_named(name, config).match(reference, frame)
    dx, dy = map(int, cache_map.motion.shift or (0, 0))
    size = cache_map.block_size
    for row, column in zip(*np.nonzero(cache_map.reusable), strict=True):
        ours = frame[row * size : (row + 1) * size, column * size : (column + 1) * size]
        top, left = row * size - dy, column * size - dx
        assert min(top, left) >= 0
        theirs = reference[top : top + ours.shape[0], left : left + ours.shape[1]]
        assert psnr(theirs, ours) >= config.threshold - 1e-9 or np.array_equal(theirs, ours)


@given(stream=image_streams(frames=2), config=matching_configs())
def test_remembered_errors_give_the_same_verdicts(stream: list[NDArray[np.uint8]], config: MatchingConfig) -> None:
    pair = ImagePair.of(*stream)
    search, visits = search_by_diamond(pair, config, config.k_skip)
    offset = search.mean_offset()
    recalled = recall(pair, config, offset, visits, search.skip)
    computed = unsettled(pair, config)
    recheck(pair, config, offset, computed)
    assert not (computed == UNKNOWN).any()
    settled = recalled != UNKNOWN
    assert np.array_equal(recalled[settled], computed[settled])


def test_the_search_spares_the_recheck_its_blocks() -> None:
    image = textured(3, 64, 64)
    pair = ImagePair.of(image, shifted(image, 2, -1))
    config = MatchingConfig(block_size=8, k_skip=2)
    search, visits = search_by_diamond(pair, config, 2)
    verdicts = recall(pair, config, search.mean_offset(), visits, 2)
    assert (verdicts[::2, ::2][1:-1, 1:-1] == REUSABLE).all()
    assert (verdicts[1::2] == UNKNOWN).all()
    assert (verdicts[:, 1::2] == UNKNOWN).all()


@given(stream=image_streams(frames=2), config=matching_configs(matcher=MatcherName.DIAMOND_OPTIMISED))
def test_without_skipping_the_optimised_search_equals_the_plain_one(
    stream: list[NDArray[np.uint8]], config: MatchingConfig
) -> None:
    optimised = make_matcher(config.changed(k_skip=1)).match(*stream)
    assert_same_map(optimised, matcher_named("diamond", config).match(*stream))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_the_largest_block_of_opposites_does_not_overflow(channels: int) -> None:
    black = np.zeros((128, 128, channels), np.uint8)
    pair = ImagePair.of(black, 255 - black)
    config = MatchingConfig(block_size=128, threshold=0.001)
    verdicts = unsettled(pair, config)
    recheck(pair, config, (0, 0), verdicts)
    assert verdicts.tolist() == [[CHANGED]]
    assert make_matcher(config.changed(threshold=0.0)).match(black, 255 - black).reuse_ratio == 1


def test_read_only_and_sliced_images_match_too() -> None:
    image = textured(1, 40, 60)
    frozen = np.frombuffer(image.tobytes(), np.uint8).reshape(image.shape)
    assert make_matcher(MatchingConfig(threshold=math.inf)).match(frozen, image[:, ::-1][:, ::-1]).reuse_ratio == 1
