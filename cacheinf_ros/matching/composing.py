# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The composed image: the frame where active, the moved reference elsewhere. What a cache is then computed from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.errors import MatchingError
from cacheinf_ros.jit import BYTES, IMAGES, INT, READ_ONLY_FLAGS, Array, kernel
from cacheinf_ros.matching.images import ImagePair


def compose_image(
    reference: NDArray[np.uint8], frame: NDArray[np.uint8], cache_map: CacheMap, out: NDArray[np.uint8]
) -> None:
    """Write the composed image into ``out``: C-contiguous, of the shape of both images, and neither of them.

    Raises :class:`MatchingError` where the map is of another size, where its motion is not one of whole pixels, or
    where it reuses what the reference does not show.
    """
    pair = ImagePair.of(reference, frame)
    if cache_map.image_size != pair.image_size:
        raise MatchingError(f"a map of {cache_map.image_size} does not fit an image of {pair.image_size}")
    if cache_map.field is not None:
        _compose_by_block(pair, cache_map, out.reshape(len(out), -1))
        return
    shift = cache_map.motion.shift
    if shift is None or not all(value.is_integer() for value in shift):
        raise MatchingError(f"the reference moves by whole pixels only, not by {cache_map.motion.matrix.tolist()}")
    dx, dy = (int(value) for value in shift)
    if _looks_outside(cache_map, dx, dy):
        raise MatchingError(f"the map reuses blocks that a motion of ({dx}, {dy}) brings in from outside the reference")
    rows = out.reshape(len(out), -1)
    _compose(pair.images, cache_map.reusable, cache_map.block_size, pair.channels, dx, dy, rows)


def _compose_by_block(pair: ImagePair, cache_map: CacheMap, out: NDArray[np.uint8]) -> None:
    assert cache_map.field is not None
    rows, columns = np.nonzero(cache_map.reusable)
    moves = cache_map.field[rows, columns]
    size, (height, width) = cache_map.block_size, cache_map.image_size
    left, top = columns * size - moves[:, 0], rows * size - moves[:, 1]
    right = left + np.minimum(size, width - columns * size)
    bottom = top + np.minimum(size, height - rows * size)
    if len(rows) and (min(left.min(), top.min()) < 0 or right.max() > width or bottom.max() > height):
        raise MatchingError("the map reuses blocks that its field brings in from outside the reference")
    _compose_field(pair.images, cache_map.reusable, cache_map.field, size, pair.channels, out)


def _looks_outside(cache_map: CacheMap, dx: int, dy: int) -> bool:
    """Whether anything reusable lies outside the reference before it moved by (dx, dy)."""
    if not len(cache_map.rectangles):
        return False
    height, width = cache_map.image_size
    left, top = cache_map.rectangles[:, :2].min(axis=0) - (dx, dy)
    right, bottom = (cache_map.rectangles[:, :2] + cache_map.rectangles[:, 2:]).max(axis=0) - (dx, dy)
    return bool(left < 0 or top < 0 or right > width or bottom > height)


@kernel()
def _copy(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    for i in range(len(target)):
        target[i] = source[i]


@kernel(IMAGES, READ_ONLY_FLAGS, *(INT,) * 4, BYTES)
def _compose(
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]], reusable: NDArray[np.bool_], block: int, channels: int,
    dx: int, dy: int, out: NDArray[np.uint8],
) -> None:  # fmt: skip
    """Copy run by run: neighbouring blocks of one kind at once."""
    reference, frame = images
    moved, size = dx * channels, block * channels
    for y in range(out.shape[0]):
        verdicts = reusable[y // block]
        column = 0
        while column < len(verdicts):
            end = column + 1
            while end < len(verdicts) and verdicts[end] == verdicts[column]:
                end += 1
            left, right = column * size, min(end * size, out.shape[1])
            if verdicts[column]:
                _copy(reference[y - dy, left - moved : right - moved], out[y, left:right])
            else:
                _copy(frame[y, left:right], out[y, left:right])
            column = end


@kernel(IMAGES, READ_ONLY_FLAGS, Array("int16", 3), INT, INT, BYTES)
def _compose_field(
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]], reusable: NDArray[np.bool_], field: NDArray[np.int16],
    block: int, channels: int, out: NDArray[np.uint8],
) -> None:  # fmt: skip
    """The same where every block has its own motion."""
    reference, frame = images
    size = block * channels
    for y in range(out.shape[0]):
        row = y // block
        for column in range(reusable.shape[1]):
            left, right = column * size, min((column + 1) * size, out.shape[1])
            if reusable[row, column]:
                moved = field[row, column, 0] * channels
                _copy(reference[y - field[row, column, 1], left - moved : right - moved], out[y, left:right])
            else:
                _copy(frame[y, left:right], out[y, left:right])
