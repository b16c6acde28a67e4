# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""CacheInf's matcher (section 4.1): what a homography explains of a frame is reusable."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.geometry import ImagePair, WarpComparison, visible_blocks, without_islands
from cacheinf_ros.matching.features import FeatureFinder, View
from cacheinf_ros.matching.keyframe import Keyframe
from cacheinf_ros.matching.matching_config import MatcherName, MatchingConfig
from cacheinf_ros.matching.tracker import track, track_most

Image = NDArray[np.uint8]
_SNAP = 0.15  # pixels
"""A motion that is closer than this to one of whole pixels is taken for that: it needs no resampling."""
HARDLY = 0.25  # pixels by which corners may be off their places without a visible effect


@dataclass(frozen=True, slots=True)
class Homography:
    """Features of both pictures give the motion; blocks that look alike after it are reusable."""

    config: MatchingConfig
    finder: FeatureFinder = field(default_factory=FeatureFinder)
    comparison: WarpComparison = field(default_factory=WarpComparison)

    @property
    def name(self) -> str:
        """The name in reports, see :attr:`Matcher.name`."""
        return MatcherName.HOMOGRAPHY.value

    def match(self, reference: Image, frame: Image) -> CacheMap:
        """Implement :meth:`Matcher.match` with another criterion: see :func:`.warping.pooled_difference`."""
        ImagePair.of(reference, frame)  # raises for unusable images
        return self.match_view(View(reference, self.finder), reference, frame)

    def match_keyframe(self, keyframe: Keyframe, frame: Image) -> CacheMap:
        """Implement :meth:`.KeyframeMatcher.match_keyframe`."""
        return self.match_view(keyframe.view, keyframe.image, frame, keyframe.motion)

    def match_view(self, view: View, reference: Image, frame: Image, expected: Motion | None = None) -> CacheMap:
        """Match with a view of the reference, with features perhaps known already, and about where it is seen."""
        tracked = track(view, View(frame, self.finder), expected)
        if tracked.motion is None:
            return CacheMap.nothing(view.size, self.config.block_size, tracked.reason)
        if expected is not None and _are_alike(tracked.motion, expected, view.size):
            return self.compare(reference, frame, expected)  # the camera is at rest, which keyframes know by the object
        return self.compare(reference, frame, snapped(tracked.motion, view.size))

    def motion_of_most(self, keyframe: Keyframe, frame: Image) -> Motion | None:
        """Return the camera's motion since the last frame; None where too little of the image agrees on one."""
        motion = track_most(keyframe.glimpse, View(frame, self.finder), keyframe.motion)
        return None if motion is None else keyframe.motion.inverse().then(motion)

    def compare(self, reference: Image, frame: Image, motion: Motion) -> CacheMap:
        """Return which blocks of a frame show what the reference shows after a motion."""
        size, block_size = (frame.shape[0], frame.shape[1]), self.config.block_size
        difference = self.comparison.difference(reference, frame, motion, block_size)
        reusable = without_islands(difference <= self.config.warp_threshold)
        reusable &= visible_blocks(motion, size, block_size)
        return CacheMap.of_blocks(reusable, size, block_size, motion)


def snapped(motion: Motion, size: tuple[int, int]) -> Motion:
    """Return the translation by whole pixels that the motion nearly is; otherwise the motion itself."""
    shifts = _corners(motion, size) - _corners(Motion.none(), size)
    whole = np.rint(shifts.mean(axis=0))
    return Motion.translation(*whole.tolist()) if np.abs(shifts - whole).max() < _SNAP else motion


def largest_move(motion: Motion, size: tuple[int, int]) -> float:
    """Return by how many pixels at most a motion moves the corners of an image of (height, width) across or along."""
    return float(np.abs(_corners(motion, size) - _corners(Motion.none(), size)).max())


def _are_alike(first: Motion, second: Motion, size: tuple[int, int]) -> bool:
    return bool(np.abs(_corners(first, size) - _corners(second, size)).max() < _SNAP)


def _corners(motion: Motion, size: tuple[int, int]) -> NDArray[np.float64]:
    """Return where the corners of an image of (height, width) go, float64 [4, 2]."""
    height, width = size
    moved = np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]]) @ motion.matrix.T
    return np.asarray(moved[:, :2] / moved[:, 2:], np.float64)
