# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Estimate how noisy a stream is: sensor and codec make still blocks differ, which is no change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.geometry import ImagePair
from cacheinf_ros.jit import FLOATS, IMAGES, INT, kernel
from cacheinf_ros.matching.block_matching import PEAK

_EVERY = 3  # only every third block in each direction is looked at
_STILL = 30  # percentile of the blocks' errors: most of a picture may truly change
_ALIKE = 2.0  # noise is about the same in all still blocks, real change is not
_MEMORY = 0.8  # of the last estimate
_LARGEST = 50.0  # variance; noise of 5 grey levels in both pictures
_MARGIN = 2.0  # above the mean: noise differs from block to block
_LEAST_BLOCKS = 12
LOWEST_DB = float(10 * np.log10(PEAK**2 / (_MARGIN * _LARGEST)))
"""The lowest PSNR that is ever estimated: a threshold below it need not adapt."""


class NoiseEstimate:
    """Follows the difference of blocks that did not change, frame by frame."""

    def __init__(self) -> None:
        self._error: float | None = None  # variance of the difference of still blocks

    @property
    def threshold_db(self) -> float:
        """The least PSNR of still blocks; inf before anything is known, or without noise."""
        if not self._error:
            return float("inf")
        return float(10 * np.log10(PEAK**2 / (_MARGIN * self._error)))

    def see(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8], cache_map: CacheMap) -> None:
        """Take account of a frame that was matched with a reference; only if by a motion of whole pixels."""
        shift = cache_map.motion.whole_shift
        if shift is None:
            return
        pair = ImagePair.of(reference, frame)
        rows, columns = cache_map.reusable.shape
        errors = np.full((-(-rows // _EVERY), -(-columns // _EVERY)), -1.0)
        _block_errors(pair.images, cache_map.block_size, pair.channels, -shift[0], -shift[1], _EVERY, errors)
        known = errors[errors >= 0]
        if len(known) < _LEAST_BLOCKS:
            return
        stillest, still = np.percentile(known, (_STILL / 3, _STILL))
        seen = float(min(still, _ALIKE * stillest, _LARGEST))
        self._error = seen if self._error is None else _MEMORY * self._error + (1 - _MEMORY) * seen


@kernel(IMAGES, *(INT,) * 5, FLOATS)
def _block_errors(
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]], block: int, channels: int, dx: int, dy: int, every: int,
    errors: NDArray[np.float64],
) -> None:  # fmt: skip
    """Compute the variance of the difference of every n-th whole block at an offset.

    Where a block lies outside the image, its value stays as it was. The mean square would take brighter light for
    noise.
    """
    reference, frame = images
    height, row_bytes = frame.shape
    size, moved = block * channels, dx * channels
    for i in range(errors.shape[0]):
        for j in range(errors.shape[1]):
            top, left = i * every * block, j * every * size
            if min(top + dy, left + moved) < 0 or max(top, top + dy) + block > height:
                continue
            if max(left, left + moved) + size > row_bytes:
                continue
            total = squares = 0
            for y in range(top, top + block):
                for x in range(left, left + size):
                    difference = np.int32(frame[y, x]) - np.int32(reference[y + dy, x + moved])
                    total += int(difference)
                    squares += int(difference * difference)
            count = block * size
            errors[i, j] = (squares - total * total / count) / count
