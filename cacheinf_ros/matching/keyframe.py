# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The keyframe of a stream: the picture that frames are compared with, and the motion from it to the last frame.

Warping the reference into each new frame would blur it a little more every time. So the picture stays as it is, only
the motion is composed, and what is active is painted into the picture through the motion. When little of it is
in view any more, it is warped once, and the motion starts anew.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.geometry import COMPARED, Brush, compose_image, warp
from cacheinf_ros.matching.features import FeatureFinder, View

Image = NDArray[np.uint8]
_AT_REST = 5  # frames without motion after which the image is warped into their place
_MOST_PAINTED = 0.5  # share of the image after which its features are found anew


class Keyframe:
    """The image that a cache which follows the maps stands for, in the place of the frame that it was taken from.

    For one thread at a time.

    Attributes:
        image: uint8 [height, width] or [height, width, channels].
        motion: image -> last frame.
        resampled: how often the image has been warped since it was taken from a frame.
    """

    def __init__(self, image: Image, *, is_kept: bool = True) -> None:
        """Start with an image; ``is_kept``: whether it will be written to, and therefore is copied."""
        self._finder: FeatureFinder | None = None
        self._brush: Brush | None = None
        self._view: View | None = None
        self._painted = 0.0  # share of the image since its features were found
        self.image = np.array(image, order="C") if is_kept else image
        self._spare = np.empty_like(image, order="C") if is_kept else self.image
        self._still = 0  # frames in a row that did not move
        self.motion = Motion.none()
        self.resampled = 0

    def take(self, image: Image) -> None:
        """Start anew with a whole frame."""
        if image.shape != self.image.shape:
            self.image, self._spare = np.empty_like(image, order="C"), np.empty_like(image, order="C")
        np.copyto(self.image, image)
        self._start(resampled=0)

    @property
    def view(self) -> View:
        """The image with its features, which are found once."""
        if self._view is None:
            self._finder = self._finder or FeatureFinder()
            self._view = View(self.image.copy(), self._finder)  # painting must not change it
        return self._view

    @property
    def glimpse(self) -> View:
        """The image for the current frame only: features that are not known yet are not kept for later frames."""
        return self._view or View(self.image, FeatureFinder())

    @property
    def in_frame(self) -> Image:
        """The image as the last frame's camera saw it."""
        return self.image if self.motion.is_none else warp(self.image, self.motion, out=self._spare)

    def settle(self) -> None:
        """Warp the image into the last frame's place; what it does not show is black, and matches hardly anything."""
        if self.motion.is_none:
            return
        self._replace(self.in_frame)
        self._start(resampled=self.resampled + 1)

    def follow(self, frame: Image, cache_map: CacheMap) -> None:
        """Take over the frame where it is active; ``cache_map`` leads from the image to the frame."""
        if self._view is None and cache_map.motion.whole_shift is not None:
            compose_image(self.image, frame, cache_map, out=self._spare)
            self._replace(self._spare)
            self._start(resampled=self.resampled)
            return
        # without a motion there is nothing to gain, and features would have to be found again
        is_at_rest = cache_map.motion is self.motion and not self.motion.is_none
        self._still = self._still + 1 if is_at_rest else 0
        if self._still == _AT_REST or COMPARED.starts_anew_at(
            cache_map.motion, cache_map.image_size, cache_map.block_size
        ):
            self._renew(frame, cache_map)
            return
        self._paint(frame, cache_map)
        self.motion = cache_map.motion
        self._painted += 1 - cache_map.reuse_ratio
        if self._painted > _MOST_PAINTED:
            self._view, self._painted = None, 0.0

    def _renew(self, frame: Image, cache_map: CacheMap) -> None:
        """Warp the image into the frame's place, and take over what is active."""
        self.motion = cache_map.motion
        composed = self.in_frame
        cv2.copyTo(frame, cache_map.active_mask.view(np.uint8), composed)
        self._replace(composed)
        self._start(resampled=self.resampled + (cache_map.motion.whole_shift is None))

    def _paint(self, frame: Image, cache_map: CacheMap) -> None:
        """Write the active pixels of the frame into the image, where the motion says that they lie."""
        active = np.ascontiguousarray(cache_map.active_mask).view(np.uint8)
        if cache_map.motion.is_none:
            cv2.copyTo(frame, active, self.image)
            return
        if self._brush is None or self._brush.size != cache_map.image_size:
            self._brush = Brush(cache_map.image_size)
        self._brush.paint(frame, active, cache_map.motion, self.image)

    def _replace(self, image: Image) -> None:
        self.image, self._spare = image, self.image if image is self._spare else self._spare

    def _start(self, *, resampled: int) -> None:
        self.motion = Motion.none()
        self.resampled = resampled
        self._view, self._painted = None, 0.0
        self._still = 0
