# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The plane that the virtual camera looks at: photographs side by side, blended at the seams."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
from numpy.typing import NDArray

_CELL = (480, 640)
_OVERLAP = 96


def build_world(
    photographs: tuple[NDArray[np.uint8], ...], frame_size: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Lay photographs in a grid of 480 x 640 cells that continues at the opposite edge, without end.

    Args:
        photographs: uint8 [height, width, 3] each; shuffled, and repeated where they are too few.
        frame_size: (height, width) of the camera; the world is at least twice as high and wide.
        rng: decides order and mirroring.

    Returns:
        uint8 [rows * 480, columns * 640, 3].
    """
    rows, columns = (max(2, -(-2 * side // cell)) for side, cell in zip(frame_size, _CELL, strict=True))
    world = np.zeros((rows * _CELL[0], columns * _CELL[1], 3), np.float32)
    weight = _ramp(_CELL[0])[:, None, None] * _ramp(_CELL[1])[None, :, None]
    order = rng.permutation(len(photographs))
    for cell in range(rows * columns):
        picture = weight * _filled(photographs[order[cell % len(order)]], rng)
        places = (_places(*where) for where in zip(divmod(cell, columns), _CELL, world.shape[:2], strict=True))
        for (in_rows, of_rows), (in_columns, of_columns) in itertools.product(*places):
            world[in_rows, in_columns] += picture[of_rows, of_columns]
    return np.rint(world).astype(np.uint8)


def _ramp(side: int) -> NDArray[np.float32]:
    """Return weights, float32 [side + overlap], that sum to one with those of the neighbouring cells."""
    rise = (np.arange(_OVERLAP, dtype=np.float32) + 0.5) / _OVERLAP
    return np.concatenate([rise, np.ones(side - _OVERLAP, np.float32), rise[::-1]])


def _places(cell: int, side: int, total: int) -> tuple[tuple[slice, slice], ...]:
    """Return the world's rows (or columns) under a cell with its overlap, each with the cell's own rows there."""
    first, whole = cell * side, side + _OVERLAP
    inside = min(whole, total - first)  # the rest continues at the opposite edge
    return (slice(first, first + inside), slice(0, inside)), (slice(0, whole - inside), slice(inside, whole))


def _filled(photograph: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32]:
    """Resize and crop a photograph about its centre to fill a cell with its overlap, mirrored at random."""
    height, width = (side + _OVERLAP for side in _CELL)
    scale = max(height / photograph.shape[0], width / photograph.shape[1])
    resized = cv2.resize(photograph, None, fx=scale + 1e-3, fy=scale + 1e-3, interpolation=cv2.INTER_AREA)
    top, left = (resized.shape[0] - height) // 2, (resized.shape[1] - width) // 2
    crop = resized[top : top + height, left : left + width]
    return np.asarray(crop[:, ::-1] if rng.random() < 0.5 else crop, np.float32)
