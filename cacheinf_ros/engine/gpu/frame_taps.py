# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Computes the pixels and weights for resizing frames on the device, so that results equal OpenCV's bit for bit.

It follows OpenCV 5.0 on x86; on other processors OpenCV may round differently.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.frame_placement import Placement
from cacheinf_ros.engine.preprocess import shrinks

IN_MARGIN = -1
"""The position that stands for the margin, where the input shows nothing of the frame."""
_ONE = 2048  # weights of linear interpolation are multiples of 1 / 2048
_NOTHING = 1e-3  # of a pixel: parts no larger than that are left out of an area
_IS_WHOLE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AxisMix:
    """The pixels that each position along an axis of the model's input is mixed from.

    Attributes:
        positions: int32 [side, taps]: positions in the frame; :data:`IN_MARGIN` beside it.
        weights: float32 [side, taps]: the weight of each tap.
    """

    positions: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, positions: NDArray[np.float64], weights: NDArray[np.float64], source: int) -> AxisMix:
        """Build a mix without taps whose weights are all 0; taps beyond the border read the pixel at the border.

        Args:
            positions: float64 [side, taps]: positions in the frame.
            weights: float64 [side, taps].
            source: the number of pixels along the axis of the frame.
        """
        used = weights.any(axis=0)
        inside = np.clip(positions[:, used], 0, source - 1)
        return cls(positions=inside.astype(np.int32, "C"), weights=weights[:, used].astype(np.float32, "C"))

    def within(self, side: int, before: int) -> AxisMix:
        """Return this mix with margins: ``before`` positions before it, and as many after it as make up ``side``."""
        around = ((before, side - before - len(self.positions)), (0, 0))
        return AxisMix(
            positions=np.pad(self.positions, around, constant_values=IN_MARGIN), weights=np.pad(self.weights, around)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameTaps:
    """The pixels of a frame that each pixel of the model's input is mixed from.

    Attributes:
        rows: what each row of the input is mixed from.
        columns: what each column of the input is mixed from.
        by_area: whether sums are float32, rounded to the nearest and halves to even; else they are truncated integers.
        scale: the factor by which sums over an area are multiplied.
        halves_up: whether halves of sums over an area are rounded up instead.
    """

    rows: AxisMix
    columns: AxisMix
    by_area: bool
    scale: float
    halves_up: bool

    @classmethod
    def of(cls, place: Placement) -> FrameTaps:
        """Build the taps that do what ``Preprocessor.resize`` does for frames with this placement."""
        by_area = shrinks(place.image_size, place.size)
        sides = list(zip(place.image_size, place.size, strict=True))
        in_blocks = by_area and all(abs(_scale(*side) - round(_scale(*side))) < _IS_WHOLE for side in sides)
        mix = _whole_blocks if in_blocks else _by_area if by_area else _linear
        rows, columns = (
            mix(*side).within(whole, before)
            for side, whole, before in zip(sides, place.input_size, (place.top, place.left), strict=True)
        )
        down, across = (round(_scale(*side)) for side in sides)
        return cls(
            rows=rows,
            columns=columns,
            by_area=by_area,
            scale=float(np.float32(1) / np.float32(down * across)) if in_blocks else 1.0,
            halves_up=in_blocks and down == across == 2,
        )


def _scale(source: int, target: int) -> float:
    """Return the source pixels per target pixel, rounded twice, as in OpenCV."""
    return 1.0 / (target / source)


def _linear(source: int, target: int) -> AxisMix:
    """Build linear interpolation between two neighbours; weights are whole multiples of 1 / 2048."""
    centre = ((np.arange(target) + 0.5) * _scale(source, target) - 0.5).astype(np.float32)
    first = np.floor(centre)
    part = centre - first
    weights = np.rint(np.stack([np.float32(1) - part, part], axis=1) * np.float32(_ONE))
    return AxisMix.of(first[:, None] + np.arange(2), weights, source)


def _by_area(source: int, target: int) -> AxisMix:
    """Build the mean over the area that each target pixel covers, of whose first and last pixel only a part counts."""
    scale = _scale(source, target)
    begin = (np.arange(target) * scale)[:, None]
    end, covered = begin + scale, np.minimum(scale, source - begin)
    last = np.minimum(np.floor(end), source - 1)
    first = np.minimum(np.ceil(begin), last)
    positions = first - 1 + np.arange(int((last - first).max()) + 2)
    head = np.where(first - begin > _NOTHING, first - begin, 0.0)
    tail = np.where(end - last > _NOTHING, np.minimum(np.minimum(end - last, 1.0), covered), 0.0)
    parts = [positions < first, positions < last, positions == last]
    return AxisMix.of(positions, np.select(parts, [head, np.ones_like(head), tail], 0.0) / covered, source)


def _whole_blocks(source: int, target: int) -> AxisMix:
    """Build the sum of equally many whole source pixels for each target pixel."""
    positions = np.arange(source, dtype=np.float64).reshape(target, -1)
    return AxisMix.of(positions, np.ones_like(positions), source)
