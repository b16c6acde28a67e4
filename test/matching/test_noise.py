# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Noise does not count as change."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from strategies import textured

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.matching.matching_config import usable
from cacheinf_ros.matching.noise import NoiseEstimate
from cacheinf_ros.mode import Mode

Image = NDArray[np.uint8]


def noisy(image: Image, deviation: float, seed: int) -> Image:
    noise = np.random.default_rng(seed).normal(0, deviation, image.shape)
    return np.asarray(np.clip(np.rint(image + noise), 0, 255), np.uint8)


def everything(image: Image, motion: Motion) -> CacheMap:
    grid = np.ones((-(-image.shape[0] // 10), -(-image.shape[1] // 10)), np.bool_)
    return CacheMap.of_blocks(grid, (image.shape[0], image.shape[1]), 10, motion)


@pytest.mark.parametrize("deviation", [1.0, 3.0])
def test_the_estimate_is_twice_the_variance_of_a_difference(deviation: float) -> None:
    """Noise of deviation s in both pictures makes the difference's variance 2 s^2: 10 log10(255^2 / (2 * 2 s^2))."""
    image = np.clip(textured(0, 200, 200), 30, 225)
    estimate = NoiseEstimate()
    for seed in range(10):
        estimate.see(noisy(image, deviation, 2 * seed), noisy(image, deviation, 2 * seed + 1),
                     everything(image, Motion.none()))  # fmt: skip
    expected = 10 * np.log10(255**2 / (2 * 2 * deviation**2))
    assert estimate.threshold_db == pytest.approx(expected, abs=0.7)


def test_changing_light_and_real_change_are_no_noise() -> None:
    image = np.clip(textured(1, 200, 200), 30, 225)
    frame = image + np.uint8(20)
    frame[:80] = textured(2, 80, 200)  # 40 percent of the picture
    estimate = NoiseEstimate()
    estimate.see(image, frame, everything(image, Motion.none()))
    assert estimate.threshold_db == float("inf")


def test_a_still_scene_with_noise_is_reused_although_the_threshold_is_higher() -> None:
    image = np.clip(textured(0, 240, 320), 30, 225)
    shares = {}
    for adapt in (True, False):
        config = MatchingConfig(matcher=MatcherName.IDENTITY, threshold=42.0, adapt_to_noise=adapt, expiry=1000)
        matching = MatchingStream(config)
        reuse = [matching.match(noisy(image, 2.0, seed)).reuse_ratio for seed in range(20)]
        shares[adapt] = np.mean(reuse[10:])
    assert shares[True] > 0.95
    assert shares[False] < 0.2


def test_noise_is_followed_on_a_machine_that_takes_seconds_for_a_frame() -> None:
    """The measured time is beyond what a user may give as ``dense_ms``, and was refused as such."""
    image = np.clip(textured(0, 240, 320), 30, 225)
    config = MatchingConfig(matcher=MatcherName.IDENTITY, threshold=42.0, expiry=1000)
    matching = MatchingStream(usable(config, Mode.EXACT, dense_ms=2500.0))
    reuse = [matching.match(noisy(image, 2.0, seed)).reuse_ratio for seed in range(20)]
    assert np.mean(reuse[10:]) > 0.95


def test_nothing_is_guessed_from_what_moved_between_pixels_or_from_too_little() -> None:
    image = textured(0, 200, 200)
    estimate = NoiseEstimate()
    estimate.see(image, noisy(image, 3, 0), everything(image, Motion.translation(0.5, 0)))
    estimate.see(image[:20], noisy(image, 3, 0)[:20], everything(image[:20], Motion.none()))
    assert estimate.threshold_db == float("inf")
