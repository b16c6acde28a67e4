# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""CacheInf's matcher on scenes whose motion is known, and the reuse ratio of its paper."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cameras import corner_error
from strategies import textured

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.matching import MatcherName, MatchingConfig, make_matcher
from cacheinf_ros.matching.homography import snapped
from cacheinf_ros.sources import Scene
from cacheinf_ros.sources.scenes import MotionPreset, SceneConfig

SIZE = (480, 640)
CONFIG = MatchingConfig(matcher=MatcherName.HOMOGRAPHY)
MOVING = [MotionPreset.PAN, MotionPreset.HANDHELD, MotionPreset.FORWARD, MotionPreset.TURN]


def moving_objects(scene: Scene, before: int, now: int) -> np.ndarray:
    """Return the pixels of objects that moved by at least a pixel against the background: bool [height, width]."""
    moved = np.zeros(SIZE, np.bool_)
    motion, earlier = scene.truth(now).motion, scene.truth(before).objects
    for thing in scene.truth(now).objects:
        place = np.array([thing.x + thing.width / 2, thing.y + thing.height / 2])
        alike = [t for t in earlier if (t.class_id, t.width, t.height) == (thing.class_id, thing.width, thing.height)]
        for other in alike:
            x, y, w = motion.matrix @ (other.x + other.width / 2, other.y + other.height / 2, 1.0)
            if 1 <= np.hypot(place[0] - x / w, place[1] - y / w) < 12:
                moved |= thing.mask
    return moved


@pytest.mark.parametrize("preset", MOVING, ids=lambda preset: preset.value)
def test_the_camera_is_followed_and_objects_are_not_reused(preset: MotionPreset) -> None:
    """Moving objects cover about a fifth of the picture."""
    scene = Scene(SceneConfig(preset=preset, frames=40, objects=45, size=SIZE))
    matcher = make_matcher(CONFIG)
    errors, covered, wrong, blocks = [], [], 0, 0
    for before, now in pairwise(range(20, 34)):
        cache_map = matcher.match(scene.frame(before).image, scene.frame(now).image)
        truth = scene.truth(now)
        assert not cache_map.reason
        errors.append(corner_error(cache_map.motion, truth.motion, SIZE))
        objects = moving_objects(scene, before, now)
        covered.append(objects.mean())
        covers = objects.reshape(48, 10, 64, 10).mean(axis=(1, 3)) > 0.1
        blocks += covers.sum()
        wrong += (covers & cache_map.reusable).sum()
        assert cache_map.reuse_ratio > 0.4
    assert np.mean(covered) > 0.15
    assert wrong <= 0.01 * blocks  # plain parts of objects look as before wherever they move
    assert np.median(errors) <= 0.5
    assert np.percentile(errors, 95) <= 2


def test_the_reuse_ratio_is_reusable_pixels_over_all() -> None:
    """One of forty-eight blocks differs: r = 47/48, while the paper's formula would give 1/48."""
    image = np.tile(textured(0, 240, 320, blur=3.0), (2, 2, 1))
    frame = image.copy()
    frame[100:110, 200:210] ^= 0x80
    cache_map = make_matcher(CONFIG.changed(block_size=80)).match(image, frame)
    assert cache_map.motion.is_none
    assert cache_map.reuse_ratio == pytest.approx(47 / 48)


@pytest.mark.parametrize("size", [(1, 1280), (2, 4096)])
def test_the_thinnest_pictures_are_matched(size: tuple[int, int]) -> None:
    """Line-scan cameras' pictures were scaled down to nothing."""
    image = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    assert make_matcher(CONFIG).match(image, image).image_size == size


def test_nearly_whole_pixels_need_no_resampling() -> None:
    assert snapped(Motion.translation(3.1, -2.05), SIZE).shift == (3.0, -2.0)
    assert snapped(Motion.translation(3.4, 0), SIZE).shift == (3.4, 0.0)
    turned = Motion(matrix=np.array([[1, 0.001, 3], [-0.001, 1, 0], [0, 0, 1]]))
    assert snapped(turned, SIZE) is turned
