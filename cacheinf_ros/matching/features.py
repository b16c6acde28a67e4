# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Find points of an image again in another: corners to follow, and described key points (CacheInf 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Points = NDArray[np.float32]

WINDOW = 15
"""The side of the window around a corner by which it is followed, in pixels."""
_LARGEST_SIDE = 640  # pixels of the picture that points are searched in
_CORNERS = 300  # points that are enough
_CORNER_DISTANCE = 0.08  # of the smaller side, at least, between two: not all shall lie on the busiest object
_FEATURES = 1000  # before they are thinned out
_GRID = (12, 16)  # cells, rows and columns
_PER_CELL = 4
_LEVELS = 4
_SMALLEST_SIDE = 64  # pixels: ORB describes no point nearer to the border than 31
_SCALE = 1.3  # between levels of the pyramid
_FAST_THRESHOLD = 12
_RATIO = 0.8  # Lowe's test: the best match must be this much nearer than the second best
# locality-sensitive hashing, FLANN's index for binary descriptors
_INDEX: dict[str, bool | int | float | str] = {
    "algorithm": 6,
    "table_number": 6,
    "key_size": 12,
    "multi_probe_level": 1,
}
_SEARCH: dict[str, bool | int | float | str] = {"checks": 32}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """Key points with descriptors.

    Attributes:
        points: float32 [n, 2], (x, y) in pixels.
        descriptors: uint8 [n, 32], ORB's.
    """

    points: NDArray[np.float32]
    descriptors: NDArray[np.uint8]


def _spread(points: Sequence[cv2.KeyPoint], size: tuple[int, ...]) -> list[cv2.KeyPoint]:
    """Keep the strongest points of each cell of a grid: many lie on the busiest object, which may move on its own."""
    best_first = sorted(points, key=lambda point: -point.response)
    taken = np.zeros(_GRID, np.int64)
    kept = []
    for point in best_first:
        x, y = point.pt
        cell = int(y * _GRID[0] / size[0]), int(x * _GRID[1] / size[1])
        taken[cell] += 1
        if taken[cell] <= _PER_CELL:
            kept.append(point)
    return kept


_NONE = Features(points=np.zeros((0, 2), np.float32), descriptors=np.zeros((0, 32), np.uint8))


class FeatureFinder:
    """Finds ORB features and matches them; for one thread at a time.

    ORB was chosen by measurement among OpenCV's detectors: see the benchmarks page.
    """

    def __init__(self) -> None:
        self._orb = cv2.ORB.create(
            nfeatures=_FEATURES, scaleFactor=_SCALE, nlevels=_LEVELS, fastThreshold=_FAST_THRESHOLD
        )
        self._flann = cv2.FlannBasedMatcher(_INDEX, _SEARCH)

    def find(self, grey: NDArray[np.uint8]) -> Features:
        """Return the features of an image, uint8 [height, width]; none if a side is below 64 pixels."""
        if min(grey.shape) < _SMALLEST_SIDE:
            return _NONE
        points, descriptors = self._orb.compute(grey, _spread(self._orb.detect(grey, None), grey.shape))
        if descriptors is None:
            return _NONE
        return Features(
            points=np.asarray(cv2.KeyPoint.convert(points), np.float32), descriptors=np.asarray(descriptors, np.uint8)
        )

    def pair(self, first: Features, second: Features) -> NDArray[np.int64]:
        """Return indices of features that show the same, int64 [n, 2], by k-nearest matching with a ratio test."""
        if min(len(first.points), len(second.points)) < 2:
            return np.zeros((0, 2), np.int64)
        found = self._flann.knnMatch(first.descriptors, second.descriptors, k=2)
        pairs = [
            (best[0].queryIdx, best[0].trainIdx)
            for best in found
            if best and (len(best) == 1 or best[0].distance < _RATIO * best[1].distance)
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class View:
    """An image prepared for tracking: what is derived from it is derived once.

    Attributes:
        image: uint8 [height, width] or [height, width, channels].
        finder: finds its features.
    """

    image: Image
    finder: FeatureFinder

    @cached_property
    def grey(self) -> Image:
        """The image in grey, uint8 [height, width], scaled down where it is large."""
        image = self.image[:, :, 0] if self.image.ndim == 3 and self.image.shape[2] < 3 else self.image
        if image.ndim == 3:
            image = np.asarray(cv2.cvtColor(image[:, :, :3], cv2.COLOR_BGR2GRAY), np.uint8)
        if self.scale == 1:
            return np.ascontiguousarray(image)
        height, width = (max(1, round(side * self.scale)) for side in image.shape)
        return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)

    @cached_property
    def scale(self) -> float:
        """Pixels of :attr:`grey` per pixel of the image."""
        return min(1.0, _LARGEST_SIDE / max(self.image.shape[:2]))

    @cached_property
    def features(self) -> Features:
        """The key points and their descriptors, in pixels of :attr:`grey`."""
        return self.finder.find(self.grey)

    @cached_property
    def corners(self) -> Points:
        """float32 [n, 2]: points that are easily followed, in pixels of :attr:`grey`; searched at half its size."""
        if min(self.grey.shape) < 4 * WINDOW:
            return np.zeros((0, 2), np.float32)
        half = cv2.resize(self.grey, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        distance = max(4.0, _CORNER_DISTANCE * min(half.shape))
        found = cv2.goodFeaturesToTrack(half, _CORNERS, qualityLevel=0.01, minDistance=distance, blockSize=3)
        return np.zeros((0, 2), np.float32) if found is None else np.asarray(2 * found.reshape(-1, 2) + 0.5, np.float32)

    @cached_property
    def size(self) -> tuple[int, int]:
        """(height, width) of the image."""
        return self.image.shape[0], self.image.shape[1]
