# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Paint marked pixels of a frame into an image that a motion leads to the frame; the rest of the image stays.

Warping whole frames to take over a tenth of them would cost more than computing that tenth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.jit import BYTES, FLAGS, READ_ONLY_FLOATS, Array, kernel

Image = NDArray[np.uint8]
Mask = NDArray[np.uint8]

TILE = 8
"""The side of a tile in pixels; tiles that show nothing marked are skipped. isa/input.cpp has the same number."""
_BITS = 5  # of the fraction to which pixel positions are rounded, as OpenCV does
_PARTS, _REST, _HALF = 1 << _BITS, (1 << _BITS) - 1, 1 << (2 * _BITS - 1)
_READ_ONLY = Array("uint8", 2)


class Brush:
    """Paints frames of one size into pictures, through motions; for one thread at a time.

    Attributes:
        size: (height, width).
    """

    def __init__(self, size: tuple[int, int]) -> None:
        """Allocate buffers for frames and pictures of ``size``, (height, width)."""
        height, width = self.size = size
        self._tiles = np.empty((-(-height // TILE), -(-width // TILE)), np.bool_)
        self._line = np.empty((1, width), np.uint8)
        self._places = np.empty((2, TILE), np.int32)
        self._painted = np.zeros(size, np.uint8)
        self._nothing = np.zeros(size, np.uint8)

    def paint(self, frame: Image, marked: Mask, motion: Motion, picture: Image, unseen: Mask | None = None) -> Mask:
        """Write each pixel of the picture that shows, after the motion, anything marked in the frame.

        Values are interpolated between four pixels; beyond the frame its border is continued.

        Args:
            frame: uint8 [height, width, channels].
            marked: uint8 [height, width]: 1 where the frame is to be taken over, else 0.
            motion: picture -> frame.
            picture: image to paint into, of the frame's shape, C-contiguous.
            unseen: uint8 [height, width]: 1 where the picture is painted in any case; reset where the frame shows it.

        Returns:
            uint8 [height, width]: 1 where the picture was written; valid until the next call.
        """
        height, marked = len(marked), np.ascontiguousarray(marked)
        assert picture.flags.c_contiguous  # otherwise a copy would be painted
        self._tiles[:] = False
        _flag_shown(marked, np.ascontiguousarray(motion.inverse().matrix), self._line, self._tiles)
        if unseen is not None:
            _flag(unseen, self._line, self._tiles)
        _paint(
            np.ascontiguousarray(frame).reshape(height, -1), marked, self._tiles,
            np.ascontiguousarray(motion.matrix), picture.reshape(height, -1), self._painted,
            self._nothing if unseen is None else unseen, self._places,
        )  # fmt: skip
        return self._painted


@kernel()
def _merge_lines(mask: Mask, top: int, line: Mask) -> None:
    """Combine all lines of a row of tiles, the first of which is ``top``, into one by bitwise or."""
    line[:] = 0
    for y in range(top, min(top + TILE, len(mask))):
        for x in range(mask.shape[1]):
            line[0, x] |= mask[y, x]


@kernel(_READ_ONLY, BYTES, FLAGS)
def _flag(mask: Mask, line: Mask, tiles: NDArray[np.bool_]) -> None:
    """Flag the tiles that hold anything of a mask."""
    for row in range(tiles.shape[0]):
        _merge_lines(mask, row * TILE, line)
        for x in range(mask.shape[1]):
            tiles[row, x // TILE] |= line[0, x] > 0


@kernel()
def _flag_seen(
    back: NDArray[np.float64], top: int, bottom: int, left: int, right: int, tiles: NDArray[np.bool_]
) -> None:
    """Flag the tiles in which a box of the frame is seen; ``back``: frame -> picture.

    A motion leads convex shapes to convex ones, so that the four corners suffice.
    """
    low_x = low_y = np.inf
    high_x = high_y = -np.inf
    for y in (top, bottom):
        for x in (left, right):
            depth = back[2, 0] * x + back[2, 1] * y + back[2, 2]
            if depth <= 0:  # beyond the horizon: it may be seen anywhere
                tiles[:] = True
                return
            there_x = (back[0, 0] * x + back[0, 1] * y + back[0, 2]) / depth
            there_y = (back[1, 0] * x + back[1, 1] * y + back[1, 2]) / depth
            low_x, high_x = min(low_x, there_x), max(high_x, there_x)
            low_y, high_y = min(low_y, there_y), max(high_y, there_y)
    rows, columns = tiles.shape
    if high_x < 0 or high_y < 0 or low_x >= columns * TILE or low_y >= rows * TILE:
        return
    for row in range(int(max(0.0, low_y)) // TILE, min(rows, int(min(high_y, rows * TILE)) // TILE + 1)):
        for column in range(int(max(0.0, low_x)) // TILE, min(columns, int(min(high_x, columns * TILE)) // TILE + 1)):
            tiles[row, column] = True


@kernel(_READ_ONLY, READ_ONLY_FLOATS, BYTES, FLAGS)
def _flag_shown(marked: Mask, back: NDArray[np.float64], line: Mask, tiles: NDArray[np.bool_]) -> None:
    """Flag the tiles of the picture that may show anything marked; ``back``: frame -> picture."""
    height, width = marked.shape
    for top in range(0, height, TILE):
        _merge_lines(marked, top, line)
        for left in range(0, width, TILE):
            right, found = min(left + TILE, width), 0
            for x in range(left, right):
                found |= line[0, x]
            if found:
                _flag_seen(back, top - 1, min(top + TILE, height), left - 1, right, tiles)


@kernel()
def _places(matrix: NDArray[np.float64], y: int, left: int, size: tuple[int, int], there: NDArray[np.int32]) -> None:
    """Compute where the pixels of a tile's line lie in the frame, in 1 / _PARTS of a pixel, two pixels right and below.

    That offset makes everything positive, so that shifting bits rounds down. There is no branch, for the compiler to
    use vectors.
    """
    for i in range(TILE):
        x = left + i
        scale = _PARTS / max(matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2], 1e-9)
        there_x = (matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]) * scale
        there_y = (matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2]) * scale
        there[0, i] = np.int32(min(max(there_x, -2.0 * _PARTS), (size[1] + 1.0) * _PARTS) + (2 * _PARTS + 0.5))
        there[1, i] = np.int32(min(max(there_y, -2.0 * _PARTS), (size[0] + 1.0) * _PARTS) + (2 * _PARTS + 0.5))


@kernel()
def _paint_tile(
    frame: Image, marked: Mask, matrix: NDArray[np.float64], picture: Image, painted: Mask, unseen: Mask,
    box: tuple[int, int, int, int], there: NDArray[np.int32],
) -> None:  # fmt: skip
    height, width = marked.shape
    top, bottom, left, right = box
    channels = frame.shape[1] // width
    for y in range(top, bottom):
        _places(matrix, y, left, (height, width), there)
        for x in range(left, right):
            place_x, place_y = there[0, x - left], there[1, x - left]
            part_x, part_y = place_x & _REST, place_y & _REST
            x0, y0 = (place_x >> _BITS) - 2, (place_y >> _BITS) - 2
            x1, y1 = x0 + (part_x > 0), y0 + (part_y > 0)
            shown = x1 >= 0 and y1 >= 0 and x0 < width and y0 < height
            x0, x1 = np.uint32(min(max(x0, 0), width - 1)), np.uint32(min(max(x1, 0), width - 1))
            y0, y1 = np.uint32(min(max(y0, 0), height - 1)), np.uint32(min(max(y1, 0), height - 1))
            counts = shown and (marked[y0, x0] | marked[y0, x1] | marked[y1, x0] | marked[y1, x1])
            if not counts and not unseen[y, x]:
                continue
            painted[y, x] = 1
            if shown:
                unseen[y, x] = 0
            for channel in range(channels):
                at_0, at_1 = np.uint32(x0 * channels + channel), np.uint32(x1 * channels + channel)
                upper = (_PARTS - part_x) * frame[y0, at_0] + part_x * frame[y0, at_1]
                lower = (_PARTS - part_x) * frame[y1, at_0] + part_x * frame[y1, at_1]
                value = (_PARTS - part_y) * upper + part_y * lower
                picture[y, x * channels + channel] = (value + _HALF) >> (2 * _BITS)


@kernel(_READ_ONLY, _READ_ONLY, FLAGS, READ_ONLY_FLOATS, BYTES, BYTES, BYTES, Array("int32", 2, writable=True))
def _paint(
    frame: Image, marked: Mask, tiles: NDArray[np.bool_], matrix: NDArray[np.float64], picture: Image, painted: Mask,
    unseen: Mask, there: NDArray[np.int32],
) -> None:  # fmt: skip
    height, width = marked.shape
    painted[:] = 0
    for row in range(tiles.shape[0]):
        for column in range(tiles.shape[1]):
            if tiles[row, column]:
                top, left = row * TILE, column * TILE
                box = (top, min(top + TILE, height), left, min(left + TILE, width))
                _paint_tile(frame, marked, matrix, picture, painted, unseen, box, there)
