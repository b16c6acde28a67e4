# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures how much a picture has changed since the last answer, on thumbnails: this takes a tenth of a millisecond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.pipeline.picture_kernels import CHANNELS, RADIUS, compare, shrink

Image = NDArray[np.uint8]
_SHRINK = 4  # times smaller than the model's input
_LONGEST_SIDE = 128  # pixels
_LEAST_SIDE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How two pictures differ, in grey levels.

    Attributes:
        largest: the difference in the place that differs most: large where something small moves or appears.
        mean: the mean over the picture: large where the camera moves or the light changes.
    """

    largest: float
    mean: float

    def within(self, limit: Change) -> bool:
        """Tell whether both figures are at most those of a limit."""
        return self.largest <= limit.largest and self.mean <= limit.mean


class ChangeMeter:
    """Compares pictures at a quarter of the size of the model's input, or less. For one thread at a time."""

    def __init__(self, input_size: tuple[int, int]) -> None:
        """Choose the thumbnail's size; ``input_size``: (height, width) of the model's input."""
        shrink = max(_SHRINK, max(input_size) / _LONGEST_SIDE)
        height, width = self._size = (
            max(_LEAST_SIDE, round(input_size[0] / shrink)),
            max(_LEAST_SIDE, round(input_size[1] / shrink)),
        )
        self._scratch = np.empty((2, (width + 2 * RADIUS) * CHANNELS), np.int32)
        self._places = np.empty((height, width), np.uint8)
        self._figures = np.empty((1, 2))
        self._image_width = 0
        self._samples = np.empty((2, width), np.int64)

    def thumbnail(self, image: Image) -> Image:
        """Shrink a picture to uint8 [h, w, 3]; each pixel averages four of the frame's, however large that is.

        Args:
            image: uint8 [height, width, 3].
        """
        height, width = self._size
        if image.shape[1] != self._image_width:
            self._image_width = image.shape[1]
            grid = np.arange(2 * width) * self._image_width // (2 * width)
            self._samples = np.ascontiguousarray(CHANNELS * grid.reshape(width, 2).T)
        small = np.empty((height, width * CHANNELS), np.uint8)
        shrink(np.ascontiguousarray(image).reshape(image.shape[0], -1), self._samples, small)
        return small.reshape(height, width, CHANNELS)

    def between(self, before: Image, now: Image) -> Change:
        """Return how two thumbnails differ."""
        return self.compare(before, now)[0]

    def compare(self, before: Image, now: Image) -> tuple[Change, NDArray[np.uint8]]:
        """Compare two thumbnails, averaged over 5 x 5 places.

        Returns:
            how they differ, and the difference place by place, uint8 [h, w], in the colour channel that differs most;
            it is valid until the next call.
        """
        height = self._size[0]
        compare((before.reshape(height, -1), now.reshape(height, -1)), self._scratch, self._places, self._figures)
        largest, mean = self._figures[0].tolist()
        return Change(largest=largest, mean=mean), self._places
