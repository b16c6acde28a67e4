# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells drawings, such as occupancy grids, from pictures of a camera."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

_SAMPLES = 16  # rows and columns: hardly any other picture goes further


def is_black_and_white(image: NDArray[np.uint8]) -> bool:
    """Tell whether all values of an image, uint8 [height, width] or [height, width, channels], are 0 or 255.

    A picture of darkness is none: it may be a camera's, as the one after it.
    """
    height, width = image.shape[:2]
    sample = image[:: max(1, height // _SAMPLES), :: max(1, width // _SAMPLES)]
    return _has_two_levels(sample) and _has_two_levels(image) and bool(image.any())


def _has_two_levels(image: NDArray[np.uint8]) -> bool:
    return not cv2.countNonZero(cv2.inRange(image.reshape(image.shape[0], -1), 1, 254))
