# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of choosing the matcher, frame by frame."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import textured

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.matching import Keyframe, MatcherName, MatchingConfig, MatchingStream, make_matcher
from cacheinf_ros.matching.auto import Auto
from cacheinf_ros.matching.homography import Homography
from cacheinf_ros.sources import open_source

Image = NDArray[np.uint8]
# dense frames so dear that what matching takes on a busy machine decides nothing
CONFIG = MatchingConfig(matcher=MatcherName.AUTO, threshold=30.0, expiry=1000, dense_ms=1000.0)


def run(scene: str, count: int = 30) -> tuple[Auto, list[float]]:
    auto = Auto(CONFIG)
    matching = MatchingStream(CONFIG)
    matching._matcher = auto
    reuse = [matching.match(frame.image).reuse_ratio for frame in open_source(f"scene:{scene}?frames={count}")]
    return auto, reuse[1:]


def test_a_still_camera_needs_no_search() -> None:
    auto, reuse = run("fixed")
    assert auto.last is MatcherName.IDENTITY
    assert np.mean(reuse) > 0.9


@pytest.mark.parametrize("scene", ["pan", "handheld", "turn", "forward"])
def test_a_moving_camera_is_followed(scene: str) -> None:
    auto, reuse = run(scene)
    assert auto.last is not MatcherName.IDENTITY
    assert np.mean(reuse) > 0.7


def test_it_comes_to_rest_with_the_camera() -> None:
    matching = MatchingStream(CONFIG)
    images = [frame.image for frame in open_source("scene:handheld?frames=12&noise=0&objects=0")]
    for image in images:
        matching.match(image)
    rest = [matching.match(images[-1]) for _ in range(40)]
    assert rest[-1].motion.is_none
    assert rest[-1].reuse_ratio == 1


def test_what_is_really_computed_counts() -> None:
    """The engine computes everything although little changed, so identity is then expected to save nothing."""
    auto = Auto(CONFIG)
    image = textured(0, 240, 320)
    frame = np.asarray(cv2.warpPerspective(image, Motion.translation(0.5, 0).matrix, (320, 240)), np.uint8)
    frame[100:130, 100:130] ^= 0x40
    choices = set()
    for _ in range(80):
        auto.match_keyframe(Keyframe(image), frame)
        choices.add(auto.last)
        share = 1.0 if auto.last is MatcherName.IDENTITY else 0.1
        if auto.choice is not None:  # a frame that changed the matcher has no choice
            auto.learn(auto.choice, share, share * CONFIG.dense_ms)
    assert len(choices) > 1
    assert auto.last is not MatcherName.IDENTITY


def test_nothing_is_tried_while_the_camera_is_at_rest() -> None:
    """Much of the picture changes, but not because of the camera."""
    auto = Auto(CONFIG)
    image = textured(0, 240, 320)
    rng = np.random.default_rng(0)
    for _ in range(40):
        frame = image.copy()
        frame[60:200, 120:300] = rng.integers(0, 255, (140, 180, 3))
        auto.match_keyframe(Keyframe(image), frame)
        assert auto.last is MatcherName.IDENTITY


def test_a_key_frame_is_no_motion() -> None:
    """A bare road with a car on it, compressed so much that now and then all of it changes."""
    stream, rng = MatchingStream(CONFIG), np.random.default_rng(0)
    car = textured(0, 80, 60)
    for number in range(60):
        frame = np.full((240, 320, 3), 90, np.uint8)
        if number % 20 > 17:
            frame += rng.integers(0, 40, frame.shape, np.uint8)
        frame[3 * number // 2 :][:80, 130:190] = car[: 240 - 3 * number // 2]
        stream.match(frame)
        if stream.choice:
            assert stream.choice.matcher is MatcherName.IDENTITY


def test_motion_that_no_majority_agrees_in_is_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Homography, "motion_of_most", lambda *_: None)
    stream, picture = MatchingStream(CONFIG), textured(0, 240, 480)
    used = []
    for number in range(40):
        stream.match(np.ascontiguousarray(picture[:, 3 * number :][:, :320]))
        used.append(stream.choice.matcher if stream.choice else None)
    assert MatcherName.IDENTITY in used[:12] and used[-1] is MatcherName.DIAMOND_OPTIMISED


def odd_inputs() -> dict[str, list[Image]]:
    picture = textured(0, 120, 160)
    return {
        "textureless": [np.full((120, 160, 3), 90, np.uint8)] * 3,
        "black": [np.zeros((120, 160, 3), np.uint8)] * 3,
        "saturated": [np.full((120, 160, 3), 255, np.uint8), np.clip(picture * 3, 0, 255).astype(np.uint8)] * 2,
        "16x16": [textured(i, 16, 16) for i in range(3)],
        "1x1": [np.full((1, 1, 3), i, np.uint8) for i in range(3)],
        "grey": [picture[..., 0], np.roll(picture[..., 0], 3, axis=1), picture[..., 0]],
        "4K": [np.asarray(cv2.resize(np.roll(picture, i, axis=1), (3840, 2160)), np.uint8) for i in range(3)],
        "rotated": [picture[:120, :120], np.rot90(picture[:120, :120]), picture[:120, :120]],
        "cut": [textured(i, 120, 160) for i in range(4)],
    }


@pytest.mark.parametrize("matcher", MatcherName)
@pytest.mark.parametrize("name", odd_inputs())
def test_odd_inputs_raise_nothing_and_reuse_nothing_wrong(name: str, matcher: MatcherName) -> None:
    config = CONFIG.changed(matcher=matcher, adapt_to_noise=False)
    matching = MatchingStream(config)
    for frame in odd_inputs()[name]:
        cache_map = matching.match(frame)
        assert cache_map.image_size == frame.shape[:2]
        assert matching.reference is not None
        difference = np.abs(matching.reference.astype(int) - frame)
        used = matching.choice.matcher if matching.choice else matcher
        if used is not MatcherName.HOMOGRAPHY:  # it compares in another way
            assert np.sqrt(np.mean(np.square(difference))) <= 255 / 10 ** (30 / 20) + 1e-9
    assert make_matcher(config).match(frame, frame).image_size == frame.shape[:2]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=40))
def test_a_frame_like_the_one_before_is_reused_whatever_was_before(pictures: list[int]) -> None:
    """The pictures are noise, in which no motion can be seen."""
    noise = np.random.default_rng(0).integers(0, 256, (4, 48, 64, 3), np.uint8)
    matching = MatchingStream(MatchingConfig(matcher=MatcherName.AUTO))
    before = -1
    for picture in pictures:
        found = matching.match(noise[picture])
        assert found.reuse_ratio == (picture == before)
        before = picture
