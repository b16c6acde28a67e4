# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Streams whose camera moves: the reference follows, and dropping frames on the way never makes the map wrong."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from strategies import shifted, textured

from cacheinf_ros.cache_map import CacheMap, Motion, compose
from cacheinf_ros.geometry.warping import warp
from cacheinf_ros.matching import Keyframe, MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.sources import open_source

Image = NDArray[np.uint8]
FOLLOWING = [MatcherName.HOMOGRAPHY, MatcherName.AUTO, MatcherName.DIAMOND_OPTIMISED]


THIRTY_DB = 255 / 10 ** (30 / 20)  # grey levels, RMS


def rms_difference(first: Image, second: Image, cache_map: CacheMap) -> float:
    """Return the RMS difference in grey levels, over the reusable pixels."""
    difference = first[cache_map.reusable_mask].astype(float) - second[cache_map.reusable_mask]
    return float(np.sqrt(np.mean(np.square(difference)))) if difference.size else 0.0


def frames(scene: str, count: int) -> list[Image]:
    return [frame.image for frame in open_source(f"scene:{scene}?frames={count}&size=240x320")]


@pytest.mark.parametrize("scene", ["pan", "handheld", "forward", "turn", "parallax", "fixed"])
@pytest.mark.parametrize("matcher", FOLLOWING)
def test_the_reference_stays_like_the_frame(scene: str, matcher: MatcherName) -> None:
    matching = MatchingStream(MatchingConfig(matcher=matcher, threshold=30.0, expiry=1000, dense_ms=1000.0))
    reuse = []
    for frame in frames(scene, 30):
        cache_map = matching.match(frame)
        assert matching.reference is not None
        assert rms_difference(np.array(matching.reference), frame, cache_map) <= THIRTY_DB
        reuse.append(cache_map.reuse_ratio)
    assert np.mean(reuse[1:]) > (0.05 if scene == "parallax" else 0.3)  # two motions in so small a picture


@pytest.mark.parametrize("scene", ["pan", "handheld", "turn"])
def test_motions_lead_from_frame_to_frame(scene: str) -> None:
    """Each map's motion is that since the previous frame, although the picture compared with is older."""
    source = open_source(f"scene:{scene}?frames=20")
    matching = MatchingStream(MatchingConfig(matcher=MatcherName.HOMOGRAPHY, expiry=1000))
    corners = np.array([[0, 0, 1], [640, 0, 1], [640, 480, 1], [0, 480, 1]], np.float64).T
    for frame in source:
        cache_map = matching.match(frame.image)
        if frame.index == 0:
            continue
        found, true = (m.matrix @ corners for m in (cache_map.motion, source.truth(frame.index).motion))
        assert np.abs(found[:2] / found[2] - true[:2] / true[2]).max() < 1.5


@pytest.mark.parametrize("scene", ["pan", "handheld", "forward"])
@pytest.mark.parametrize("matcher", [MatcherName.HOMOGRAPHY, MatcherName.AUTO])
def test_with_frames_dropped_nothing_is_reusable_that_changed(scene: str, matcher: MatcherName) -> None:
    """Reusable pixels of folded maps, seen through the folded motion, show what the frame shows."""
    rng = np.random.default_rng(0)
    config = MatchingConfig(matcher=matcher, threshold=30.0, expiry=1000, dense_ms=1000.0)
    matching, folded, held = MatchingStream(config), None, None
    checked = 0
    for frame in frames(scene, 40):
        cache_map = matching.match(frame)
        folded = cache_map if folded is None else compose(folded, cache_map)
        if held is not None and folded.reusable.any():
            drift = 3.0  # grey levels, for errors of resampling
            assert rms_difference(warp(held, folded.motion), frame, folded) <= THIRTY_DB + drift
            checked += 1
        if rng.random() < 0.5:  # this frame is not dropped: the cache now holds it
            held, folded = np.array(matching.reference), None
    assert checked > 10


def test_a_motion_of_whole_pixels_leaves_no_trace() -> None:
    image = textured(0, 60, 80)
    keyframe = Keyframe(image)
    moved = shifted(image, 10, 0)
    grid = np.ones((6, 8), np.bool_)
    grid[:, 0] = False
    keyframe.follow(moved, CacheMap.of_blocks(grid, (60, 80), 10, Motion.translation(10, 0)))
    assert keyframe.motion.is_none
    assert keyframe.resampled == 0
    assert np.array_equal(keyframe.image, moved)


def test_at_rest_after_whole_pixels_everything_is_reusable() -> None:
    """What the picture of before does not show was computed in every frame, as the camera never counted as at rest."""
    whole = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8), (0, 0), 2)
    stream = MatchingStream(MatchingConfig(matcher=MatcherName.HOMOGRAPHY))
    views = [whole[20:260, x : x + 320].copy() for x in (20, 24)]
    for view in (views[0], views[0], *[views[1]] * 20):
        found = stream.match(view)
    assert found.reuse_ratio == 1.0


def test_what_left_the_view_is_resampled_once() -> None:
    image = textured(0, 400, 400)
    keyframe = Keyframe(image)
    small = Motion.translation(0.37, 0)
    for step in range(1, 100):
        motion = keyframe.motion.then(small)
        grid = np.ones((40, 40), np.bool_)
        grid[:, 0] = False
        keyframe.follow(image, CacheMap.of_blocks(grid, (400, 400), 10, motion))
        assert keyframe.resampled <= step // 20
    assert keyframe.resampled >= 1
