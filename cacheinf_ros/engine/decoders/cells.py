# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The grids of cells in which detectors without anchors place their boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Size = tuple[int, int]
_STRIDES = (4, 8, 16, 32, 64)  # of the grids of nearly all detectors
_ANCHORS = (1, 3)  # boxes of each cell


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """The cells of all grids, grid by grid and row by row.

    Attributes:
        corners: float32 [n, 2], (column, row) in its grid.
        strides: float32 [n], pixels of the model's input per cell.
    """

    corners: NDArray[np.float32]
    strides: NDArray[np.float32]

    @classmethod
    def of(cls, strides: tuple[int, ...], input_size: Size) -> Cells:
        """Build the grids that cover the model's input of (height, width)."""
        corners = []
        for rows, columns in (grid_size(stride, input_size) for stride in strides):
            y, x = np.mgrid[:rows, :columns]
            corners.append(np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32))
        counts = [len(each) for each in corners]
        return cls(corners=np.concatenate(corners), strides=np.repeat(np.array(strides, np.float32), counts))


def grid_size(stride: int, input_size: Size) -> Size:
    """Return the (rows, columns) of the grid with this stride."""
    return -(-input_size[0] // stride), -(-input_size[1] // stride)


def is_count_of_boxes(count: int, input_size: Size) -> bool:
    """Tell whether detectors give so many boxes: one or three for each cell of two or more neighbouring strides."""
    cells = [rows * columns for rows, columns in (grid_size(stride, input_size) for stride in _STRIDES)]
    runs = (sum(cells[first:last]) for first in range(len(cells)) for last in range(first + 2, len(cells) + 1))
    return count in {anchors * run for run in runs for anchors in _ANCHORS}
