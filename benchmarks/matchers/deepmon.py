# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""DeepMon's matcher (MobiSys'17, section 5): a block is reused where its histograms equal those at its place before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.geometry import ImagePair
from cacheinf_ros.jit import FLAGS, FLOAT, IMAGES, INT, Array
from cacheinf_ros.jit.compiled import compiled
from cacheinf_ros.matching import MatchingConfig

BINS = 16
"""The number of bins that a channel's 256 levels fall into."""
ALLOWED_DISTANCE = 0.1
"""The largest chi-square distance of histograms that count as equal; they sum to 1 per channel."""


def deepmon(pair: ImagePair, config: MatchingConfig) -> CacheMap:
    """Match by comparing histograms, so that noise hardly counts, and neither does a change that keeps the colours.

    The reused blocks need not reach the PSNR of the configuration's threshold.
    """
    reusable = np.zeros(grid_shape(pair.image_size, config.block_size), np.bool_)
    counts = np.empty((2, pair.channels, BINS), np.int32)
    _compare(pair.images, config.block_size, pair.channels, ALLOWED_DISTANCE, reusable, counts)
    return CacheMap.of_blocks(reusable, pair.image_size, config.block_size, Motion.none())


@compiled(IMAGES, INT, INT, FLOAT, FLAGS, Array("int32", 3, writable=True))
def _compare(
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]], block: int, channels: int, allowed: float,
    reusable: NDArray[np.bool_], counts: NDArray[np.int32],
) -> None:  # fmt: skip
    """Mark blocks as reusable by the chi-square distance of their histograms, sum of (a - b)^2 / (a + b).

    The distance is the mean over the channels.

    ``counts`` is scratch space for both histograms, [2, channels, BINS].
    """
    reference, frame = images
    height, row_bytes = frame.shape
    for row in range(reusable.shape[0]):
        for column in range(reusable.shape[1]):
            counts[:] = 0
            left, right = column * block * channels, min((column + 1) * block * channels, row_bytes)
            for y in range(row * block, min((row + 1) * block, height)):
                for i in range(left, right):
                    counts[0, (i - left) % channels, reference[y, i] >> 4] += 1
                    counts[1, (i - left) % channels, frame[y, i] >> 4] += 1
            distance = 0.0
            for channel in range(channels):
                for level in range(BINS):
                    a, b = counts[0, channel, level], counts[1, channel, level]
                    if a != b:
                        distance += (a - b) ** 2 / (a + b)
            pixels = (min((row + 1) * block, height) - row * block) * (right - left) / channels
            reusable[row, column] = distance / (pixels * channels) <= allowed
