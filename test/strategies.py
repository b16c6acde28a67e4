# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for the types that many tests use."""

from __future__ import annotations

import math

import cv2
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.matching import MatcherName, MatchingConfig


def textured(seed: int, height: int, width: int, channels: int = 3, blur: float = 2.0) -> NDArray[np.uint8]:
    """Return a smooth random picture with full contrast, uint8 [height, width, channels]; 2-D where channels is 0."""
    noise = np.random.default_rng(seed).normal(size=(height, width, max(1, channels)))
    smooth = np.dstack([cv2.GaussianBlur(noise[..., c], (0, 0), blur) for c in range(noise.shape[2])])
    smooth = (smooth - smooth.min()) / max(float(np.ptp(smooth)), 1e-9) * 255
    return np.asarray(smooth if channels else smooth[..., 0]).round().astype(np.uint8)


def shifted(image: NDArray[np.uint8], dx: int, dy: int) -> NDArray[np.uint8]:
    """Move an image right by dx and down by dy; what enters is noise that matches nothing."""
    height, width = image.shape[:2]
    moved = np.random.default_rng(7).integers(0, 256, image.shape, np.uint8)
    if abs(dx) < width and abs(dy) < height:
        target = np.s_[max(dy, 0) : height + min(dy, 0), max(dx, 0) : width + min(dx, 0)]
        source = np.s_[max(-dy, 0) : height + min(-dy, 0), max(-dx, 0) : width + min(-dx, 0)]
        moved[target] = image[source]
    return moved


@st.composite
def image_streams(draw: st.DrawFn, *, frames: int, largest: int = 48) -> list[NDArray[np.uint8]]:
    """Draw frames of one shape that move, change in patches, and now and then carry noise."""
    height, width = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    image = textured(draw(st.integers(0, 99)), height, width, draw(st.sampled_from([0, 1, 3, 4])))
    stream = [image]
    while len(stream) < frames:
        image = shifted(image, draw(st.integers(-3, 3)), draw(st.integers(-3, 3))) if draw(st.booleans()) else image
        image = image.copy()
        for _ in range(draw(st.integers(0, 3))):
            top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
            image[top : top + 9, left : left + 9] = draw(st.integers(0, 255))
        if draw(st.booleans()):
            noise = np.random.default_rng(draw(st.integers(0, 99))).integers(-12, 13, image.shape)
            image = np.clip(image + noise, 0, 255).astype(np.uint8)
        stream.append(image)
    return stream


BY_BLOCKS = (MatcherName.IDENTITY, MatcherName.DIAMOND_OPTIMISED)


def matching_configs(
    *, matcher: MatcherName | None = None, threshold: float | None = None
) -> st.SearchStrategy[MatchingConfig]:
    """Return a strategy for matching configurations that are quick to run on small images."""
    thresholds = st.sampled_from([0.0, 15.0, 20.0, 30.0, 100.0, math.inf])
    return st.builds(
        MatchingConfig,
        matcher=st.sampled_from(BY_BLOCKS) if matcher is None else st.just(matcher),
        threshold=thresholds if threshold is None else st.just(threshold),
        block_size=st.sampled_from([2, 3, 5, 10, 16]),
        k_skip=st.integers(1, 4),
        search_range=st.integers(0, 5),
        expiry=st.integers(1, 4),
    )


@st.composite
def block_grids(draw: st.DrawFn, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Draw which blocks are reusable: from none to all, in rectangles and in single blocks."""
    grid = np.random.default_rng(draw(st.integers(0, 999))).random(shape) < draw(st.sampled_from([0, 0.1, 0.5, 0.9, 1]))
    for _ in range(draw(st.integers(0, 2))):
        row, column = draw(st.integers(0, shape[0] - 1)), draw(st.integers(0, shape[1] - 1))
        grid[row : row + 4, column : column + 6] = draw(st.booleans())
    return grid


def motions(*, largest: int = 9, whole: bool = True) -> st.SearchStrategy[Motion]:
    """Return a strategy for translations, in whole pixels or, without ``whole``, also in fractions."""
    value = st.integers(-largest, largest) if whole else st.floats(-largest, largest, allow_nan=False)
    return st.one_of(st.just(Motion.none()), st.builds(Motion.translation, value, value))


@st.composite
def cache_maps(draw: st.DrawFn, *, image_size: tuple[int, int] | None = None, still: bool = False) -> CacheMap:
    """Draw any cache map of an image of some size; without motion if ``still``."""
    size = image_size or draw(image_sizes())
    block_size = draw(st.integers(1, 12))
    grid = draw(block_grids(grid_shape(size, block_size)))
    return CacheMap.of_blocks(grid, size, block_size, Motion.none() if still else draw(motions()))


def image_sizes(largest: int = 40) -> st.SearchStrategy[tuple[int, int]]:
    """Return a strategy for image sizes: (height, width), in pixels."""
    return st.tuples(st.integers(1, largest), st.integers(1, largest))
