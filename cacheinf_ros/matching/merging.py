# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Merging of reusable blocks into rectangles (DeepCache section 4.2), compiled: the last step of every matcher.

The same greedy rule as :func:`cacheinf_ros.cache_map.merge_blocks`, which is its plain version.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.jit import FLAGS, INT, Array, kernel


def cache_map_of(reusable: NDArray[np.bool_], image_size: tuple[int, int], block_size: int, motion: Motion) -> CacheMap:
    """As :meth:`CacheMap.of_blocks`: bool [rows, columns] -> the map with its rectangles, in microseconds."""
    corners = np.empty((reusable.size, 4), np.int32)
    count = _merge(reusable.copy(), corners)
    return CacheMap(
        image_size=image_size,
        block_size=block_size,
        reusable=reusable,
        motion=motion,
        rectangles=_in_pixels(corners[:count], image_size, block_size),
    )


def _in_pixels(corners: NDArray[np.int32], image_size: tuple[int, int], block_size: int) -> NDArray[np.int32]:
    """(left, top, right, bottom) in blocks -> (x, y, width, height) in pixels, clipped to the image."""
    rectangles = corners * np.int32(block_size)
    np.minimum(rectangles[:, 2], image_size[1], out=rectangles[:, 2])
    np.minimum(rectangles[:, 3], image_size[0], out=rectangles[:, 3])
    rectangles[:, 2:] -= rectangles[:, :2]
    return rectangles


@kernel()
def _all(flags: NDArray[np.bool_], row: int, left: int, right: int) -> bool:
    for x in range(left, right):  # noqa: SIM110 (compiled)
        if not flags[row, x]:
            return False
    return True


@kernel(FLAGS, Array("int32", 2, writable=True), returns=INT)
def _merge(free: NDArray[np.bool_], corners: NDArray[np.int32]) -> int:
    """Fill ``corners`` with (left, top, right, bottom) in blocks, clear ``free``; returns how many."""
    rows, columns = free.shape
    count = 0
    for row in range(rows):
        for column in range(columns):
            if not free[row, column]:
                continue
            right = column + 1
            while right < columns and free[row, right]:
                right += 1
            bottom = row + 1
            while bottom < rows and _all(free, bottom, column, right):
                bottom += 1
            for y in range(row, bottom):
                for x in range(column, right):
                    free[y, x] = False
            corners[count, 0], corners[count, 1] = column, row
            corners[count, 2], corners[count, 3] = right, bottom
            count += 1
    return count
