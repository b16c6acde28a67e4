# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds the class with the highest score of each pixel, by compiled loops.

numpy's argmax over channels that lie far apart takes several times as long: longer than matching, preparing and
holding together for a segmenter of half a million pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.jit import BYTES, Array, kernel

MOST_CLASSES = 256
"""The number of classes that a byte can tell apart."""


def best_class_map(scores: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the class of each pixel, uint8 [height, width]; of equal scores the first class wins.

    Args:
        scores: [classes, height, width], of any number type; at most :data:`MOST_CLASSES`.
    """
    if scores.dtype != np.float32:
        return np.asarray(scores.argmax(0), np.uint8)
    classes = np.empty(scores.shape[1:], np.uint8)
    if scores.strides[0] == scores.itemsize:  # a pixel's scores lie together, as this package's own engine has them
        by_pixel = np.ascontiguousarray(scores.transpose(1, 2, 0))
        _find_best_of_pixels(by_pixel.reshape(-1, len(scores)), classes.reshape(1, -1))
        return classes
    _find_best(np.ascontiguousarray(scores), np.empty((1, scores.shape[2]), np.float32), classes)
    return classes


@kernel(Array("float32", 3), Array("float32", 2, writable=True), BYTES)
def _find_best(scores: NDArray[np.float32], line: NDArray[np.float32], classes: NDArray[np.uint8]) -> None:
    """Compare line by line, so that the best scores of a line stay in the cache; ``line``: a buffer of [1, width]."""
    count, height, width = scores.shape
    best = line[0]
    for row in range(height):
        found, first = classes[row], scores[0, row]
        for column in range(width):
            best[column] = first[column]
            found[column] = 0
        for number in range(1, count):
            values, name = scores[number, row], np.uint8(number)
            for column in range(width):
                is_better = values[column] > best[column]
                best[column] = values[column] if is_better else best[column]
                found[column] = name if is_better else found[column]


@kernel(Array("float32", 2), BYTES)
def _find_best_of_pixels(scores: NDArray[np.float32], classes: NDArray[np.uint8]) -> None:
    """Compare pixel by pixel: float32 [pixels, classes] -> uint8 [1, pixels]."""
    pixels, count = scores.shape
    found = classes[0]
    for pixel in range(pixels):
        values = scores[pixel]
        best, name = values[0], 0
        for number in range(1, count):
            is_better = values[number] > best
            best = values[number] if is_better else best
            name = number if is_better else name
        found[pixel] = np.uint8(name)
