# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How frames are resized on the device: the pixels and weights of OpenCV, so that the results have the same bits.

OpenCV 5.0 on x86 was followed; other processors may round elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.frame_placement import Placement
from cacheinf_ros.engine.preprocess import shrinks

IN_MARGIN = -1
"""The position of what shows nothing of the frame."""
_ONE = 2048  # weights of linear interpolation are multiples of 1 / 2048
_NOTHING = 1e-3  # of a pixel: less of it is left out of an area
_IS_WHOLE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AxisMix:
    """What each position along an axis of the model's input is mixed from.

    Attributes:
        positions: int32 [side, taps], in the frame; :data:`IN_MARGIN` beside it.
        weights: float32 [side, taps].
    """

    positions: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, positions: NDArray[np.float64], weights: NDArray[np.float64], source: int) -> AxisMix:
        """Leave out taps without weight; those behind the border repeat what is there."""
        used = weights.any(axis=0)
        inside = np.clip(positions[:, used], 0, source - 1)
        return cls(positions=inside.astype(np.int32, "C"), weights=weights[:, used].astype(np.float32, "C"))

    def within(self, side: int, before: int) -> AxisMix:
        """The same within a longer side, of which so many positions come before."""
        around = ((before, side - before - len(self.positions)), (0, 0))
        return AxisMix(
            positions=np.pad(self.positions, around, constant_values=IN_MARGIN), weights=np.pad(self.weights, around)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameTaps:
    """What each pixel of the model's input is mixed from.

    Attributes:
        by_area: whether sums are float32, rounded to the nearest, to even from halves; else whole numbers, cut off.
        scale: by which sums over an area are multiplied.
        halves_up: whether those are rounded up from halves.
    """

    rows: AxisMix
    columns: AxisMix
    by_area: bool
    scale: float
    halves_up: bool

    @classmethod
    def of(cls, place: Placement) -> FrameTaps:
        """Follow ``Preprocessor.resize`` for frames that are placed so."""
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
    """Source pixels per target pixel, rounded twice, as there."""
    return 1.0 / (target / source)


def _linear(source: int, target: int) -> AxisMix:
    """Mix two neighbours; the weights are whole numbers."""
    centre = ((np.arange(target) + 0.5) * _scale(source, target) - 0.5).astype(np.float32)
    first = np.floor(centre)
    part = centre - first
    weights = np.rint(np.stack([np.float32(1) - part, part], axis=1) * np.float32(_ONE))
    return AxisMix.of(first[:, None] + np.arange(2), weights, source)


def _by_area(source: int, target: int) -> AxisMix:
    """Mix what each target pixel covers, the first and the last of it in part."""
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
    """Mix as many pixels for each."""
    positions = np.arange(source, dtype=np.float64).reshape(target, -1)
    return AxisMix.of(positions, np.ones_like(positions), source)
