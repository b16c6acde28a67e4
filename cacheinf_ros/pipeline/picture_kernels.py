# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The compiled inner loops that compare thumbnails, which happens before anything else is done for a frame.

OpenCV's functions for this take three times as long, nearly all of it for a dozen calls whose code is not in the
processor's cache when a frame arrives. Pictures are uint8 [height, width * channels].
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.jit import BYTES, FLOAT, FLOATS, IMAGES, INT, Array, kernel

CHANNELS = 3
RADIUS = 2
"""The radius of the window of 5 x 5 in which differences are averaged; ``compare`` has its sums unrolled.

This removes noise of sensor and codec, and keeps an object of 20 pixels of the model's input.
"""
AROUND = 8  # places on each side: what moved there lately may well move here
BORDER = RADIUS * CHANNELS
SUMS = Array("int32", 2, writable=True)
INDICES = Array("int64", 2)
Pictures: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@kernel(Array("uint8", 2), INDICES, BYTES)
def shrink(image: NDArray[np.uint8], samples: NDArray[np.int64], small: NDArray[np.uint8]) -> None:
    """Sample an image on a grid of twice the small one's size, and average each group of four samples.

    Args:
        samples: int64 [2, columns]: where in a row of the image the left and the right samples begin.
    """
    height, rows, columns = image.shape[0], small.shape[0], samples.shape[1]
    for row in range(rows):
        upper, lower = image[row * height // rows], image[(2 * row + 1) * height // (2 * rows)]
        for column in range(columns):
            left, right = samples[0, column], samples[1, column]
            for channel in range(CHANNELS):
                above = np.int32(upper[left + channel]) + np.int32(upper[right + channel])
                below = np.int32(lower[left + channel]) + np.int32(lower[right + channel])
                small[row, column * CHANNELS + channel] = (above + below + 2) >> 2


@kernel()
def add_row(pictures: Pictures, row: int, sign: int, sums: NDArray[np.int32]) -> None:
    """Add the differences of one row to the sums, or subtract them; rows beyond the border are mirrored."""
    before, now = pictures
    height, length = before.shape
    row = -row if row < 0 else 2 * height - 2 - row if row >= height else row
    ours, theirs, inner = before[row], now[row], sums[BORDER : BORDER + length]
    factor = np.int32(sign)
    for at in range(length):
        inner[at] += factor * abs(np.int32(ours[at]) - np.int32(theirs[at]))


@kernel()
def mirror_border(sums: NDArray[np.int32]) -> None:
    """Fill the columns beyond the border by mirroring at the last column."""
    end = len(sums) - BORDER
    for step in range(RADIUS):
        for channel in range(CHANNELS):
            sums[BORDER - (step + 1) * CHANNELS + channel] = sums[BORDER + (step + 1) * CHANNELS + channel]
            sums[end + step * CHANNELS + channel] = sums[end - (step + 2) * CHANNELS + channel]


@kernel(IMAGES, SUMS, BYTES, FLOATS)
def compare(
    pictures: Pictures, scratch: NDArray[np.int32], places: NDArray[np.uint8], figures: NDArray[np.float64]
) -> None:
    """Compute the differences of two pictures, averaged in a window around each place.

    Args:
        pictures: two of one shape, [height, width * 3], each side longer than the window.
        scratch: int32 [2, (width + 2 * RADIUS) * 3], overwritten.
        places: uint8 [height, width], receives the difference in the channel that differs most.
        figures: float64 [1, 2], receives the largest difference, and the mean.
    """
    height, length = pictures[0].shape
    sums, means = scratch[0], scratch[1]
    sums[:] = 0
    for row in range(-RADIUS, RADIUS):
        add_row(pictures, row, 1, sums)
    largest, total = 0, 0
    for row in range(height):
        add_row(pictures, row + RADIUS, 1, sums)
        mirror_border(sums)
        of_row = np.int32(0)
        for at in range(length):
            summed = sums[at] + sums[at + 3] + sums[at + 6] + sums[at + 9] + sums[at + 12]
            means[at] = ((summed + np.int32(12)) * np.int32(5243)) >> np.int32(17)  # a 25th, rounded
            of_row += means[at]
        total += int(of_row)
        for column in range(places.shape[1]):
            at = column * CHANNELS
            most = max(means[at], means[at + 1], means[at + 2])
            places[row, column] = most
            largest = max(largest, int(most))
        add_row(pictures, row - RADIUS, -1, sums)
    figures[0, 0], figures[0, 1] = largest, total / (height * length)


@kernel()
def is_more(change: int, lately: NDArray[np.float32], row: int, column: int) -> bool:
    """Tell whether a place changes by more than every place around it did lately."""
    height, width = lately.shape
    for other in range(max(0, row - AROUND), min(height, row + AROUND + 1)):
        for beside in range(max(0, column - AROUND), min(width, column + AROUND + 1)):
            if lately[other, beside] >= change:
                return False
    return True


@kernel(BYTES, Array("float32", 2, writable=True), INT, INT, FLOAT, returns=INT)
def see(places: NDArray[np.uint8], lately: NDArray[np.float32], noticed: int, most: int, decay: float) -> int:
    """Tell whether any place changes by more than all around it did lately, 0 or 1; then remember these changes.

    Args:
        places: uint8 [height, width], by how much each place differs.
        lately: float32 [height, width], the remembered changes.
        noticed: the difference above which a place counts.
        most: how many places may count; where more do, the whole picture changes, and no place is new.
        decay: the factor that is applied to the remembered changes.
    """
    height, width = places.shape
    count = 0
    for row in range(height):
        for column in range(width):
            count += places[row, column] > noticed
    is_new = 0
    if 0 < count <= most:
        for row in range(height):
            for column in range(width):
                if not is_new and places[row, column] > noticed and is_more(places[row, column], lately, row, column):
                    is_new = 1
    for row in range(height):
        for column in range(width):
            lately[row, column] = max(np.float32(decay) * lately[row, column], np.float32(places[row, column]))
    return is_new
