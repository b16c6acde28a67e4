# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds the class with the highest score of each pixel, by a compiled loop over lines.

numpy's argmax over channels that lie far apart takes several times as long: longer than matching, preparing and
holding together for a segmenter of half a million pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.jit import BYTES, Array, kernel

_MOST_CLASSES = 256  # that a byte can tell apart


def best_class_map(scores: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the class of each pixel, uint8 [height, width]; of equal scores the first class wins.

    Args:
        scores: [classes, height, width], of any number type.
    """
    if scores.dtype != np.float32 or len(scores) > _MOST_CLASSES:
        return np.asarray(scores.argmax(0), np.uint8)
    classes = np.empty(scores.shape[1:], np.uint8)
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
