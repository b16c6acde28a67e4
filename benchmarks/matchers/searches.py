# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Full searches of every block, which ``diamond_optimised`` approximates; all blocks are then re-checked as it does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.geometry import ImagePair
from cacheinf_ros.jit import FLAGS, FLOAT, IMAGES, INT, Array
from cacheinf_ros.jit.compiled import compiled
from cacheinf_ros.matching import MatchingConfig, kernels
from cacheinf_ros.matching.block_matching import Search, allowed_error, recheck, search_by_diamond, unsettled
from cacheinf_ros.matching.kernels import Area, Best, Images

_NO_LIMIT = 2**62


def diamond(pair: ImagePair, config: MatchingConfig) -> CacheMap:
    """Match with DeepCache's search without its two short cuts: every block is searched, and none is remembered."""
    search, _ = search_by_diamond(pair, config, skip=1)
    return _rechecked(pair, config, search)


def exhaustive(pair: ImagePair, config: MatchingConfig) -> CacheMap:
    """Match by looking at all (2 ``search_range`` + 1)^2 places of every block: slow, and never worse."""
    return _rechecked(pair, config, _search(pair, config, in_three_steps=False))


def three_step(pair: ImagePair, config: MatchingConfig) -> CacheMap:
    """Match by looking around every block in steps that halve (Koga et al., 1981)."""
    return _rechecked(pair, config, _search(pair, config, in_three_steps=True))


def _rechecked(pair: ImagePair, config: MatchingConfig, search: Search) -> CacheMap:
    return recheck(pair, config, search.mean_offset(), unsettled(pair, config))


def _search(pair: ImagePair, config: MatchingConfig, *, in_three_steps: bool) -> Search:
    search = Search.empty(pair, config, skip=1)
    _search_all(
        pair.images, config.block_size, pair.channels, config.search_range, allowed_error(config.threshold),
        in_three_steps, search.best, search.matched,
    )  # fmt: skip
    return search


def _inner(kernel: Any) -> Any:
    """Return a kernel of the package so that this file's kernels can call it, whether it is compiled already or not."""
    return compiled()(getattr(kernel, "py_func", kernel))


_area, _error, _is_inside = map(_inner, (kernels.block_area, kernels.block_error, kernels.is_inside))


@compiled()
def _exhaustive(images: Images, area: Area, reach: int, channels: int) -> Best:
    """Return the best of all offsets; among equally good ones no movement, or else the first."""
    best = (0, 0, _error(images, area, 0, 0, channels, _NO_LIMIT))
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            if best[2] > 0 and _is_inside(images, area, dx, dy, channels):
                error = _error(images, area, dx, dy, channels, best[2])
                if error < best[2]:
                    best = (dx, dy, error)
    return best


@compiled()
def _three_step(images: Images, area: Area, reach: int, channels: int) -> Best:
    """Search the centre and its eight neighbours at half the reach, then at half of that, down to one pixel."""
    best = (0, 0, _error(images, area, 0, 0, channels, _NO_LIMIT))
    step = 1
    while 4 * step <= reach + 1:
        step *= 2
    while step > 0:
        centre = best
        for dy in (centre[1] - step, centre[1], centre[1] + step):
            for dx in (centre[0] - step, centre[0], centre[0] + step):
                if best[2] > 0 and max(abs(dx), abs(dy)) <= reach and _is_inside(images, area, dx, dy, channels):
                    error = _error(images, area, dx, dy, channels, best[2])
                    if error < best[2]:
                        best = (dx, dy, error)
        step //= 2
    return best


@compiled(IMAGES, *(INT,) * 3, FLOAT, INT, Array("int64", 3, writable=True), FLAGS)
def _search_all(
    images: Images, block: int, channels: int, reach: int, allowed: float, in_three_steps: int,
    best: NDArray[np.int64], matched: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Search every block within ``reach`` pixels; the outputs are those of :func:`.kernels.search_diamond`."""
    for row in range(matched.shape[0]):
        for column in range(matched.shape[1]):
            area = _area(images, row, column, block, channels)
            if in_three_steps:
                found = _three_step(images, area, reach, channels)
            else:
                found = _exhaustive(images, area, reach, channels)
            best[row, column, 0], best[row, column, 1] = found[0], found[1]
            matched[row, column] = found[2] <= int(allowed * (area[2] * area[3] * channels))
