# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How much a picture changed since the last answer was computed, seen from afar: a tenth of a millisecond's work."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
_SHRINK = 4  # times smaller than the model's input
_LONGEST_SIDE = 128  # pixels
_LEAST_SIDE = 16
_WINDOW = (5, 5)  # averages sensor and codec noise away, and keeps an object of 20 pixels of the model's input


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How two pictures differ, in grey levels.

    Attributes:
        largest: in the place that differs most: something small that moves or comes.
        mean: all over the picture: the camera moves, the light changes.
    """

    largest: float
    mean: float

    def within(self, limit: Change) -> bool:
        """Whether both figures are at most those of a limit."""
        return self.largest <= limit.largest and self.mean <= limit.mean


NO_CHANGE = Change(largest=0.0, mean=0.0)


class ChangeMeter:
    """Compares pictures at a quarter of the model's size."""

    def __init__(self, input_size: tuple[int, int]) -> None:
        """``input_size``: (height, width) of the model's input."""
        shrink = max(_SHRINK, max(input_size) / _LONGEST_SIDE)
        height, width = (max(_LEAST_SIDE, round(side / shrink)) for side in input_size)
        self._size = (width, height)

    def thumbnail(self, image: Image) -> Image:
        """uint8 [h, w, 3], the picture made small; four pixels of the frame for each, however large it is.

        Args:
            image: uint8 [height, width, 3].
        """
        width, height = self._size
        sampled = cv2.resize(image, (2 * width, 2 * height), interpolation=cv2.INTER_NEAREST)
        return np.asarray(cv2.resize(sampled, self._size, interpolation=cv2.INTER_AREA), np.uint8)

    def between(self, before: Image, now: Image) -> Change:
        """Compare two thumbnails."""
        return _change(_difference(before, now))

    def compare(self, before: Image, now: Image) -> tuple[Change, NDArray[np.uint8]]:
        """Compare two thumbnails; also place by place, uint8 [h, w], in the color that differs most."""
        difference = _difference(before, now)
        blue, green, red = cv2.split(difference)
        return _change(difference), np.asarray(cv2.max(cv2.max(blue, green), red), np.uint8)


def _difference(before: Image, now: Image) -> Image:
    return np.asarray(cv2.blur(cv2.absdiff(before, now), _WINDOW), np.uint8)


def _change(difference: Image) -> Change:
    return Change(largest=float(difference.max()), mean=sum(cv2.mean(difference)[:3]) / 3)
