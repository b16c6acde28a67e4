# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The compiled inner loops of block matching, all in one file, which becomes one library.

Images are uint8 [height, width * channels]. A block is cut off where the image ends, and compared over what is left
of it. An *offset* (dx, dy) says where a block of the frame is looked up in the reference: the opposite of the motion. A
place that is not wholly inside the reference never matches. Errors are sums of squared differences (SSD) over a block.
The tests' ``plain_matching`` computes the same in plain numpy.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.jit import BYTES, FLAGS, FLOAT, IMAGES, INT, Array, Arrays, kernel

Images: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # reference, frame
Area: TypeAlias = tuple[int, int, int, int]  # top, left, height, width of a block in the frame, in pixels
Visits: TypeAlias = tuple[
    NDArray[np.int16], NDArray[np.int64], NDArray[np.int64]
]  # of one block: offsets [VISITS, 2], errors [VISITS], count [1]; or of a grid of blocks, [rows, columns, ...]
Best: TypeAlias = tuple[int, int, int]  # dx, dy, error

VISITS = 64
"""The places whose error is remembered for one block; a search seldom visits more, and may then visit some twice."""

UNKNOWN, REUSABLE, CHANGED = 0, 1, 2
"""Verdicts on a block."""

# Offsets around the centre: the large and the small diamond pattern, of 9 and 5 points with the centre.
LARGE = np.array([(0, -2), (1, -1), (2, 0), (1, 1), (0, 2), (-1, 1), (-2, 0), (-1, -1)], np.int64)
SMALL = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)], np.int64)

_NO_LIMIT = 2**62
_NUMBERS = Array("int64", 3, writable=True)
_VISITS = Arrays((Array("int16", 4, writable=True), _NUMBERS, _NUMBERS))


@kernel()
def block_error(images: Images, area: Area, dx: int, dy: int, channels: int, limit: int) -> int:
    """Compute the SSD of a block at an offset; stops early above ``limit``, with some value above it."""
    reference, frame = images
    top, left, height, width = area
    start, count, moved = left * channels, width * channels, (left + dx) * channels
    total = 0
    for row in range(top, top + height):
        ours = frame[row, start : start + count]
        theirs = reference[row + dy, moved : moved + count]
        error = np.int32(0)  # narrow on purpose: the loop becomes SIMD; 128 * 4 * 255^2 fits
        for i in range(count):
            difference = np.int32(ours[i]) - np.int32(theirs[i])
            error += difference * difference
        total += int(error)
        if total > limit:
            break
    return total


@kernel()
def block_area(images: Images, row: int, column: int, block: int, channels: int) -> Area:
    """Return the area of a block, cut off where the image ends."""
    height, width = images[1].shape
    top, left = row * block, column * block
    return top, left, min(block, height - top), min(block, width // channels - left)


@kernel()
def is_inside(images: Images, area: Area, dx: int, dy: int, channels: int) -> bool:
    """Tell whether a block at an offset is wholly inside the reference."""
    top, left, height, width = area
    rows, row_bytes = images[0].shape
    inside_rows = top + dy >= 0 and top + dy + height <= rows
    return inside_rows and left + dx >= 0 and (left + dx + width) * channels <= row_bytes


@kernel()
def _visit(images: Images, area: Area, dx: int, dy: int, channels: int, limit: int, visits: Visits) -> int:
    """Return the error at an offset: remembered, or computed and remembered."""
    offsets, errors, count = visits
    for visit in range(count[0]):
        if offsets[visit, 0] == dx and offsets[visit, 1] == dy:
            return int(errors[visit])
    error = block_error(images, area, dx, dy, channels, limit)
    if count[0] < VISITS:
        offsets[count[0], 0], offsets[count[0], 1], errors[count[0]] = dx, dy, error
        count[0] += 1
    return error


@kernel()
def _best_around(
    images: Images, area: Area, pattern: NDArray[np.int64], centre: Best, reach: int, channels: int, allowed: int,
    visits: Visits,
) -> Best:  # fmt: skip
    """Return the best of the centre and the pattern around it; the centre where nothing is truly better.

    Errors above both the best one and the allowed one are cut short: they can neither win nor be reusable.
    """
    best_x, best_y, best = centre
    for point in range(len(pattern)):
        dx, dy = centre[0] + pattern[point, 0], centre[1] + pattern[point, 1]
        if max(abs(dx), abs(dy)) <= reach and is_inside(images, area, dx, dy, channels):
            error = _visit(images, area, dx, dy, channels, max(best, allowed), visits)
            if error < best:
                best_x, best_y, best = dx, dy, error
    return best_x, best_y, best


@kernel()
def _diamond(images: Images, area: Area, reach: int, channels: int, allowed: int, visits: Visits) -> Best:
    """Move the large diamond until its centre is the best, then try one small diamond; return the best place."""
    best = (0, 0, _visit(images, area, 0, 0, channels, _NO_LIMIT, visits))
    if best[2] == 0:
        return best
    moving = True
    while moving:
        centre = best
        best = _best_around(images, area, LARGE, centre, reach, channels, allowed, visits)
        moving = best[2] < centre[2]
    return _best_around(images, area, SMALL, best, reach, channels, allowed, visits)


@kernel(IMAGES, *(INT,) * 4, FLOAT, _NUMBERS, FLAGS, _VISITS)
def search_diamond(
    images: Images, block: int, channels: int, skip: int, reach: int, allowed: float, best: NDArray[np.int64],
    matched: NDArray[np.bool_], visits: Visits,
) -> None:  # fmt: skip
    """Search every ``skip``-th block in each direction, within ``reach`` pixels.

    Args:
        allowed: largest mean squared difference of a match.
        best: out, [rows, columns, 2]: the best offset of each searched block.
        matched: out, [rows, columns]: whether that is a match.
        visits: out, for each searched block: [rows, columns, VISITS, 2], [rows, columns, VISITS], [rows, columns, 1].
    """
    offsets, errors, counts = visits
    for row in range(matched.shape[0]):
        for column in range(matched.shape[1]):
            area = block_area(images, row * skip, column * skip, block, channels)
            budget = int(allowed * (area[2] * area[3] * channels))
            counts[row, column, 0] = 0
            of_block = (offsets[row, column], errors[row, column], counts[row, column])
            found = _diamond(images, area, reach, channels, budget, of_block)
            best[row, column, 0], best[row, column, 1] = found[0], found[1]
            matched[row, column] = found[2] <= budget


@kernel(IMAGES, *(INT,) * 5, FLOAT, _VISITS, BYTES)
def recall(
    images: Images, block: int, channels: int, skip: int, dx: int, dy: int, allowed: float,
    visits: Visits, verdicts: NDArray[np.uint8],
) -> None:  # fmt: skip
    """Settle the verdicts on those blocks of which the search already looked at this offset."""
    offsets, errors, counts = visits
    for row in range(counts.shape[0]):
        for column in range(counts.shape[1]):
            for visit in range(counts[row, column, 0]):
                if offsets[row, column, visit, 0] == dx and offsets[row, column, visit, 1] == dy:
                    area = block_area(images, row * skip, column * skip, block, channels)
                    budget = int(allowed * (area[2] * area[3] * channels))
                    same = errors[row, column, visit] <= budget
                    verdicts[row * skip, column * skip] = REUSABLE if same else CHANGED


@kernel(IMAGES, *(INT,) * 4, FLOAT, BYTES)
def recheck(
    images: Images, block: int, channels: int, dx: int, dy: int, allowed: float, verdicts: NDArray[np.uint8]
) -> None:
    """Settle the verdicts that are still unknown: whether the block at this offset is a match."""
    for row in range(verdicts.shape[0]):
        for column in range(verdicts.shape[1]):
            if verdicts[row, column] != UNKNOWN:
                continue
            area = block_area(images, row, column, block, channels)
            budget = int(allowed * (area[2] * area[3] * channels))
            same = is_inside(images, area, dx, dy, channels) and (
                block_error(images, area, dx, dy, channels, budget) <= budget
            )
            verdicts[row, column] = REUSABLE if same else CHANGED
