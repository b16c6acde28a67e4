# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells drawings, such as occupancy grids, from pictures of a camera."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

_SAMPLES = 16  # rows and columns: hardly any other picture goes further


def is_black_and_white(image: NDArray[np.uint8]) -> bool | None:
    """Tell whether an image, uint8 [height, width] or [height, width, channels], has two levels alone, 0 and 255.

    Returns:
        None: it has only one of them, which says nothing: a camera in darkness or glare gives such a picture, and so
        does a grid without a point.
    """
    height, width = image.shape[:2]
    if _has_grey(image[:: max(1, height // _SAMPLES), :: max(1, width // _SAMPLES)]) or _has_grey(image):
        return False
    return True if 0 < cv2.countNonZero(_rows(image)) < image.size else None


def _has_grey(image: NDArray[np.uint8]) -> bool:
    return cv2.countNonZero(cv2.inRange(_rows(image), 1, 254)) > 0


def _rows(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return image.reshape(image.shape[0], -1)
