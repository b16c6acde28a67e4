# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Warp images by a motion, and compare them block by block with a frame (CacheInf section 4.1)."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion, grid_shape
from cacheinf_ros.jit import FLAGS, INT, READ_ONLY_FLOATS, kernel

Image = NDArray[np.uint8]
_AROUND = np.ones((3, 3), np.uint8)
_EPSILON = 1e-6
_RESAMPLED = 0.2  # of the range of a pixel's neighbours
_ISLAND = 25  # blocks


def warp(image: Image, motion: Motion, out: Image | None = None) -> Image:
    """Return the image as it looks after the motion, interpolated bilinearly; black where it shows nothing."""
    height, width = image.shape[:2]
    return np.asarray(cv2.warpPerspective(image, motion.matrix, (width, height), dst=out), np.uint8)


def look_through(image: Image, motion: Motion) -> Image:
    """Undo :func:`warp`: return a picture that the motion leads to this image, whose border is continued outside."""
    height, width = image.shape[:2]
    flags, border = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, cv2.BORDER_REPLICATE
    return np.asarray(
        cv2.warpPerspective(image, motion.matrix, (width, height), flags=flags, borderMode=border), np.uint8
    )


def visible_blocks(motion: Motion, image_size: tuple[int, int], block_size: int) -> NDArray[np.bool_]:
    """Return the blocks of the frame of which the reference shows everything, bool [rows, columns].

    A homography maps convex areas to convex ones: what holds for the corners of a block holds for the block.
    """
    rows, columns = grid_shape(image_size, block_size)
    visible, corners = np.empty((rows, columns), np.bool_), np.empty((rows + 1, columns + 1), np.bool_)
    _mark_visible(np.ascontiguousarray(motion.inverse().matrix), *image_size, block_size, visible, corners)
    return visible


@kernel(READ_ONLY_FLOATS, INT, INT, INT, FLAGS, FLAGS)
def _mark_visible(
    back: NDArray[np.float64], height: int, width: int, block: int, visible: NDArray[np.bool_],
    corners: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Fill in ``visible``, and ``corners``, bool [rows + 1, columns + 1]: which corners of blocks are visible.

    ``back`` leads from the frame to the reference.
    """
    rows, columns = visible.shape
    for row in range(rows + 1):
        for column in range(columns + 1):
            # a block ends half a pixel beside its outermost pixels' centres; the picture's border counts from these
            y = min(max(min(row * block, height) - 0.5, 0.0), height - 1.0)
            x = min(max(min(column * block, width) - 0.5, 0.0), width - 1.0)
            depth = back[2, 0] * x + back[2, 1] * y + back[2, 2]
            if depth <= 0:
                corners[row, column] = False
                continue
            there_x = (back[0, 0] * x + back[0, 1] * y + back[0, 2]) / depth
            there_y = (back[1, 0] * x + back[1, 1] * y + back[1, 2]) / depth
            low, right, bottom = -0.5 - _EPSILON, width - 0.5 + _EPSILON, height - 0.5 + _EPSILON
            corners[row, column] = low < there_x < right and low < there_y < bottom
    for row in range(rows):
        for column in range(columns):
            left = corners[row, column] and corners[row + 1, column]
            visible[row, column] = left and corners[row, column + 1] and corners[row + 1, column + 1]


class WarpComparison:
    """Compares frames with warped images; for one thread at a time.

    Its buffers are reused, since for images of this size allocating memory takes longer than writing to it.
    """

    def __init__(self) -> None:
        self._shape: tuple[int, ...] = ()

    def difference(self, reference: Image, frame: Image, motion: Motion, block_size: int) -> NDArray[np.float32]:
        """Return :func:`pooled_difference` of the reference after a motion and a frame of the same shape."""
        if reference.shape != self._shape:
            self._shape = reference.shape
            self._warped, self._spread, self._beyond = (np.empty_like(reference, order="C") for _ in range(3))
            self._wide, self._wide_warped = (np.empty((*reference.shape[:2], 4), np.uint8) for _ in range(2))
        return pooled_difference(self._warp(reference, motion), frame, block_size, (self._spread, self._beyond))

    def _warp(self, image: Image, motion: Motion) -> Image:
        """Warp as :func:`warp` does, but with four channels for three: OpenCV takes half the time for them."""
        if image.ndim == 2 or image.shape[2] != 3:
            return warp(image, motion, out=self._warped)
        cv2.cvtColor(image, cv2.COLOR_BGR2BGRA, dst=self._wide)
        warp(self._wide, motion, out=self._wide_warped)
        return np.asarray(cv2.cvtColor(self._wide_warped, cv2.COLOR_BGRA2BGR, dst=self._warped), np.uint8)


def pooled_difference(
    warped: Image, frame: Image, block_size: int, buffers: tuple[Image | None, Image | None] = (None, None)
) -> NDArray[np.float32]:
    """Return how much each block of a frame differs from a warped picture, in grey levels, float32 [rows, columns].

    That is the mean absolute difference over a quarter of the block (all of it, where its side is odd); of the quarters
    the largest counts, lest a small object drowns in its block. A fifth of the range of a pixel's 3x3 neighbours counts
    as no difference: a resampled edge may deviate by so much, and hardly anything that truly moved deviates by less.

    Args:
        buffers: two images of the pictures' shape, which are overwritten; None: they are allocated.
    """
    spread = cv2.morphologyEx(warped, cv2.MORPH_GRADIENT, _AROUND, dst=buffers[0])
    beyond = cv2.absdiff(frame, warped, dst=buffers[1])
    beyond = cv2.addWeighted(beyond, 1.0, spread, -_RESAMPLED, 0.0, dst=beyond)
    height, width = frame.shape[:2]
    rows, columns = grid_shape((height, width), block_size)
    parts = 2 if block_size % 2 == 0 else 1
    below, beside = rows * block_size - height, columns * block_size - width
    if below or beside:
        beyond = cv2.copyMakeBorder(beyond, 0, below, 0, beside, cv2.BORDER_REPLICATE)
    flat = beyond.reshape(rows * block_size, -1)
    pooled = cv2.resize(flat, (columns * parts, rows * parts), interpolation=cv2.INTER_AREA).astype(np.float32)
    return np.asarray(pooled.reshape(rows, parts, columns, parts).max(axis=(1, 3)))


def without_islands(reusable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Drop small reusable areas amidst active ones, such as the plain middle of an object; bool [rows, columns].

    In a picture of few blocks a quarter of them is not small.
    """
    if reusable.all():
        return reusable
    active = np.pad((~reusable).view(np.uint8), 1)
    closed = cv2.morphologyEx(active, cv2.MORPH_CLOSE, _AROUND, borderType=cv2.BORDER_REPLICATE)[1:-1, 1:-1]
    _, areas, stats, _ = cv2.connectedComponentsWithStats(1 - closed, connectivity=4)
    large = stats[:, cv2.CC_STAT_AREA] > min(_ISLAND, reusable.size // 4)
    large[0] = False  # label 0: active blocks
    return np.asarray(large[areas])
