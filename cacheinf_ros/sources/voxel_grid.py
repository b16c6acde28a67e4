# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames of clouds of points: the slices of an occupancy grid, side by side."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import LARGEST_SIDE
from cacheinf_ros.errors import ConfigError, quoted
from cacheinf_ros.sources.picture_files import MOST_PIXELS

_AXES = "xyz"
_USUAL_ORDER = "zxy"
_OCCUPIED = 255
_LARGEST, _LEAST_LENGTH = 1e6, 1e-6  # metres, as a rule
EXAMPLE = "256x256x32, 0..51.2, -25.6..25.6, -2..4.4"
"""A grid as users write it: that of SemanticKITTI's scenes."""
_CELLS = re.compile(r"([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9})")
_NUMBER = r"([+-]?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)"
_RANGE = re.compile(rf"{_NUMBER}\.\.{_NUMBER}")
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
            if not (least >= -_LARGEST and most <= _LARGEST and most - least >= _LEAST_LENGTH):  # also refuses NaN
                raise ConfigError(
                    f"{least:g}..{most:g} along {axis}: give the lower end first, the higher one at least "
                    f"{_LEAST_LENGTH:g} above it, and neither beyond {_LARGEST:g}"
                )
        if math.prod(self.cells) > MOST_PIXELS or max(self.frame_size) > LARGEST_SIDE:
            slices, rows, columns = self._shape
            raise ConfigError(
                f"{slices} slices of {rows}x{columns} cells side by side are more than a frame shows: {LARGEST_SIDE} "
                f"pixels along a side, {MOST_PIXELS} in all"
            )

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
            points: [3, n], (x, y, z). Those outside the box are left out, and those that are not finite.

        Returns:
            uint8 [height, width, 3]: 255 where a cell has a point, else 0.
        """
        is_inside = np.ones(points.shape[1], np.bool_)
        for values, (least, most) in zip(points, self.ranges, strict=True):
            is_inside &= (values >= least) & (values < most)  # false for NaN
        kept, at = np.flatnonzero(is_inside), {}
        for axis, values, cells, (least, most) in zip(_AXES, points, self.cells, self.ranges, strict=True):
            at[axis] = ((values[kept] - least) * (cells / (most - least))).astype(np.intp)
            np.minimum(at[axis], cells - 1, out=at[axis])  # rounding
        first, second, third = list(self.order)
        slices, _, columns = self._shape
        occupied = np.zeros(self.frame_size, np.uint8)
        occupied.ravel()[(at[second] * slices + at[first]) * columns + at[third]] = _OCCUPIED
        return np.asarray(cv2.cvtColor(occupied, cv2.COLOR_GRAY2BGR), np.uint8)

    @property
    def _shape(self) -> tuple[int, int, int]:
        """How many slices, and how many rows and columns each of them has."""
        first, second, third = (self.cells[_AXES.index(axis)] for axis in self.order)
        return first, second, third


def parse_voxel_grid(text: str) -> VoxelGrid:
    """Read a grid, with spaces or without: "256x256x32, 0..51.2, -25.6..25.6, -2..4.4", and an order, such as ", xyz".

    Raises:
        ConfigError: the text describes no grid.
    """
    parts = "".join(text.split()).lower().split(",")
    try:
        if len(parts) not in (4, 5):
            raise ValueError
        found = _CELLS.fullmatch(parts[0])
        if found is None:
            raise ValueError
        ranges = tuple(_range(part) for part in parts[1:4])
    except ValueError:
        raise ConfigError(f"voxels {quoted(text)}: {_FORM}") from None
    try:
        return VoxelGrid((int(found[1]), int(found[2]), int(found[3])), (ranges[0], ranges[1], ranges[2]), *parts[4:])
    except ConfigError as error:
        raise ConfigError(f"voxels {quoted(text)}: {error}") from None


def _range(text: str) -> tuple[float, float]:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError
    return float(found[1]), float(found[2])
