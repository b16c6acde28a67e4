# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames of clouds of points: the slices of an occupancy grid, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import ConfigError, quoted
from cacheinf_ros.sources.picture_files import MOST_PIXELS

_AXES = "xyz"
_USUAL_ORDER = "zxy"
_OCCUPIED = 255
_LARGEST = 1e6  # metres
EXAMPLE = "256x256x32, 0..51.2, -25.6..25.6, -2..4.4"
"""A grid as users write it: that of SemanticKITTI's scenes."""
_FORM = f"give cells along x, y and z, and from where to where they reach, such as '{EXAMPLE}'"


@dataclass(frozen=True, slots=True)
class VoxelGrid:
    """Cells of equal size in a box, in the frame of reference of the points.

    Attributes:
        cells: how many along x, y and z.
        ranges: for x, y and z: where the first cell begins and the last one ends, in the points' unit.
        order: three axes: the slices of a frame, from left to right, are cut along the first; rows of pixels follow one
            another along the second, columns along the third.

    Raises:
        ConfigError: these are no cells, or more than a frame can show.
    """

    cells: tuple[int, int, int]
    ranges: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
    order: str = _USUAL_ORDER

    def __post_init__(self) -> None:
        """Check the grid."""
        if sorted(self.order) != list(_AXES):
            raise ConfigError(f"{quoted(self.order)} does not name x, y and z once each, as {_USUAL_ORDER} does")
        for axis, cells, (least, most) in zip(_AXES, self.cells, self.ranges, strict=True):
            if cells < 1:
                raise ConfigError(f"{cells} cells along {axis}: give at least one")
            if not -_LARGEST <= least < most <= _LARGEST:  # also refuses NaN
                raise ConfigError(f"{least:g}..{most:g} along {axis}: give the lower end first, and no end twice")
        if math.prod(self.cells) > MOST_PIXELS:
            raise ConfigError(f"{math.prod(self.cells)} cells are more than the {MOST_PIXELS} pixels of a frame")

    def __str__(self) -> str:
        """Return the grid as :func:`parse_voxel_grid` reads it."""
        ranges = (f"{least!r}..{most!r}" for least, most in self.ranges)
        return ", ".join(("x".join(map(str, self.cells)), *ranges, self.order))

    @property
    def slices(self) -> int:
        """How many pictures a frame shows side by side."""
        return self._shape[0]

    @property
    def frame_size(self) -> tuple[int, int]:
        """(height, width) of a frame: that of a slice, with the slices side by side."""
        slices, rows, columns = self._shape
        return rows, slices * columns

    def frame(self, points: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
        """Return the frame that shows which cells have a point in them.

        Args:
            points: [n, 3], (x, y, z). Those outside the box are left out, and those that are not finite.

        Returns:
            uint8 [height, width, 3]: 255 where a cell has a point, else 0.
        """
        least, most = np.array(self.ranges).T
        inside = points[((points >= least) & (points < most)).all(axis=1)]  # false for NaN
        at = ((inside - least) * (np.array(self.cells) / (most - least))).astype(np.intp)
        np.minimum(at, np.array(self.cells) - 1, out=at)  # rounding
        part, row, column = (at[:, _AXES.index(axis)] for axis in self.order)
        occupied = np.zeros(self.frame_size, np.uint8)
        occupied[row, part * self._shape[2] + column] = _OCCUPIED
        return np.asarray(cv2.cvtColor(occupied, cv2.COLOR_GRAY2BGR), np.uint8)

    @property
    def _shape(self) -> tuple[int, int, int]:
        """(slices, rows, columns)."""
        first, second, third = (self.cells[_AXES.index(axis)] for axis in self.order)
        return first, second, third


def parse_voxel_grid(text: str) -> VoxelGrid:
    """Read a grid, with spaces or without: "256x256x32, 0..51.2, -25.6..25.6, -2..4.4", and an order, such as ", xyz".

    Raises:
        ConfigError: the text describes no grid.
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        if len(parts) not in (4, 5):
            raise ValueError
        cells = tuple(int(number) for number in parts[0].split("x"))
        ranges = tuple(_range(part) for part in parts[1:4])
        if len(cells) != len(_AXES):
            raise ValueError
    except ValueError:
        raise ConfigError(f"voxels {quoted(text)}: {_FORM}") from None
    try:
        return VoxelGrid((cells[0], cells[1], cells[2]), (ranges[0], ranges[1], ranges[2]), *parts[4:])
    except ConfigError as error:
        raise ConfigError(f"voxels {quoted(text)}: {error}") from None


def _range(text: str) -> tuple[float, float]:
    least, _, most = text.partition("..")
    return float(least), float(most)
