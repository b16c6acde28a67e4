# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Block matching in plain Python, slow and obvious: compiled matchers must equal it, block for block."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.matching.block_matching import PEAK, allowed_error

LARGE = [(0, -2), (1, -1), (2, 0), (1, 1), (0, 2), (-1, 1), (-2, 0), (-1, -1)]
SMALL = [(0, -1), (1, 0), (0, 1), (-1, 0)]


def psnr(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """PSNR in dB of two equally shaped uint8 arrays: 10 log10(255^2 / mean squared difference); inf where equal."""
    error = float(np.square(first.astype(np.int64) - second).mean())
    return 10 * math.log10(PEAK**2 / error) if error else math.inf


class PlainMatcher:
    """All block matchers in one, for one pair of images: uint8 [height, width] or [height, width, channels]."""

    def __init__(
        self, name: str, reference: NDArray[np.uint8], frame: NDArray[np.uint8], config: MatchingConfig
    ) -> None:
        self.name, self.config = name, config
        self.reference, self.frame = reference.astype(np.int64), frame.astype(np.int64)
        self.error = cache(self._error)

    def match(self) -> CacheMap:
        """Compute the cache map, as :meth:`.matcher.Matcher.match` does."""
        dx, dy = self.offset()
        image_size = (self.frame.shape[0], self.frame.shape[1])
        reusable = np.zeros(grid_shape(image_size, self.config.block_size), np.bool_)
        for block in np.ndindex(*reusable.shape):
            reusable[block] = self.error(*block, dx, dy) <= allowed_error(self.config.threshold)
        return CacheMap.of_blocks(reusable, image_size, self.config.block_size, Motion.translation(-dx, -dy))

    def offset(self) -> tuple[int, int]:
        """Return the mean of the searched blocks' best offsets, over the blocks that match at theirs."""
        rows, columns = grid_shape(self.frame.shape[:2], self.config.block_size)
        skip = self.config.k_skip if self.name == "diamond_optimised" else 1
        matched = []
        for block in product(range(0, rows, skip), range(0, columns, skip)):
            best = self.best(*block)
            if self.error(*block, *best) <= allowed_error(self.config.threshold):
                matched.append(best)
        if not matched:
            return 0, 0
        dx, dy = np.rint(np.mean(matched, axis=0))
        return int(dx), int(dy)

    def best(self, row: int, column: int) -> tuple[int, int]:
        """Return the offset (dx, dy) in the reference at which one block matches best."""
        if self.name == "identity":
            return 0, 0
        if self.name == "exhaustive":
            reach = range(-self.config.search_range, self.config.search_range + 1)
            return self._best_of(row, column, (0, 0), [(dx, dy) for dy in reach for dx in reach])
        if self.name == "three_step":
            return self._in_three_steps(row, column)
        best, moved = (0, 0), True
        while moved:
            centre = best
            best = self._best_of(row, column, centre, _around(centre, LARGE))
            moved = best != centre
        return self._best_of(row, column, best, _around(best, SMALL))

    def _in_three_steps(self, row: int, column: int) -> tuple[int, int]:
        best, steps = (0, 0), [1]
        while 4 * steps[0] <= self.config.search_range + 1:
            steps.insert(0, 2 * steps[0])
        for step in steps:
            around = [(dx, dy) for dy in (-step, 0, step) for dx in (-step, 0, step)]
            best = self._best_of(row, column, best, _around(best, around))
        return best

    def _best_of(
        self, row: int, column: int, centre: tuple[int, int], offsets: list[tuple[int, int]]
    ) -> tuple[int, int]:
        within = [offset for offset in offsets if max(map(abs, offset)) <= self.config.search_range]
        return min([centre, *within], key=lambda offset: self.error(row, column, *offset))

    def _error(self, row: int, column: int, dx: int, dy: int) -> float:
        """Return the mean squared difference between a block and the reference at an offset; inf outside the image."""
        size = self.config.block_size
        ours = self.frame[row * size : (row + 1) * size, column * size : (column + 1) * size]
        top, left = row * size + dy, column * size + dx
        if min(top, left) < 0:
            return np.inf
        theirs = self.reference[top : top + ours.shape[0], left : left + ours.shape[1]]
        return float(np.square(ours - theirs).mean()) if ours.shape == theirs.shape else np.inf


def _around(centre: tuple[int, int], pattern: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(centre[0] + dx, centre[1] + dy) for dx, dy in pattern]
