# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Propagates active sets: finds the output pixels that depend on active input pixels, for separable local operators.

These are the pixels uv' of CacheInf's section 4.2, equations 4 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.active import ActiveSet, Size
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.graph import AxisTaps, Window

BEFORE, BEHIND = -1, -2
"""Positions beside the image: on the left or above it (BEFORE), on the right or below it (BEHIND)."""
_SAME_WEIGHT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TapTable:
    """The input pixels that each output pixel reads, by row and by column.

    Attributes:
        rows: int32 [out_height, taps]: positions along y; :data:`BEFORE` or :data:`BEHIND` beside the image.
        columns: int32 [out_width, taps]: positions along x, with the same marks beside the image.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]

    @property
    def out_size(self) -> Size:
        """(height, width) of the output."""
        return len(self.rows), len(self.columns)

    @classmethod
    def of(cls, footprint: Window | TapTable) -> TapTable:
        """Return the table of a window; a table is returned as it is."""
        return cls.of_window(footprint) if isinstance(footprint, Window) else footprint

    @classmethod
    def of_window(cls, window: Window) -> TapTable:
        """List the taps of a sliding window."""
        return cls(rows=_window_axis(window, 0), columns=_window_axis(window, 1))

    @classmethod
    def of_taps(cls, rows: AxisTaps, columns: AxisTaps) -> TapTable:
        """List the taps of a resampling; a tap of weight 0 is not read, so it repeats the first one.

        Outputs that differ from the ones a period further in, as the image ends beside what they read, get a tap beside
        it too: after a shift of the map they depend on what has left it.
        """
        return cls(rows=_used(rows), columns=_used(columns))

    @classmethod
    def of_shuffle(cls, in_size: Size, factor: int) -> TapTable:
        """List the taps of a pixel shuffle."""
        rows, columns = (np.repeat(np.arange(n, dtype=np.int32), factor)[:, None] for n in in_size)
        return cls(rows=rows, columns=columns)

    def inverse(self, in_size: Size) -> TapTable:
        """Return which output pixels read each input pixel; :data:`BEFORE` where none does."""
        return TapTable(rows=_inverse_axis(self.rows, in_size[0]), columns=_inverse_axis(self.columns, in_size[1]))


def propagate(table: TapTable, source: ActiveSet, target: ActiveSet, outside: Border = Border.NONE) -> None:
    """Fill the target with the outputs that depend on an active pixel of the source, or on changed padding.

    A full source stands for "compute everything": then all outputs count, even those that read nothing but padding.

    Args:
        table: which source pixels each target pixel reads.
        source: the active input pixels.
        target: filled with output pixels.
        outside: the sides beside which padding has changed.
    """
    if source.count == source.pixels:
        target.fill()
        return
    padded = np.zeros((source.size[0] + 2, source.size[1] + 2), np.uint8)
    padded[:-2, :-2] = source.mask
    padded[:, BEFORE] |= Border.LEFT in outside
    padded[:, BEHIND] |= Border.RIGHT in outside
    padded[BEFORE] |= Border.TOP in outside
    padded[BEHIND] |= Border.BOTTOM in outside
    along = np.bitwise_or.reduce([padded[:, column] for column in table.columns.T])
    np.copyto(target.mask, np.bitwise_or.reduce([along[row] for row in table.rows.T]))
    target.use_mask()


def _window_axis(window: Window, axis: int) -> NDArray[np.int32]:
    starts = np.arange(window.out_size[axis]) * window.stride[axis] - window.padding[axis]
    position = starts[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
    behind = np.where(position < window.in_size[axis], position, BEHIND)
    return np.where(position < 0, BEFORE, behind).astype(np.int32)


def _inverse_axis(positions: NDArray[np.int32], in_size: int) -> NDArray[np.int32]:
    """Turn the inputs that each output reads, int32 [outputs, taps], into the outputs of each input, [inputs, taps]."""
    output, _ = np.nonzero(positions >= 0)
    pairs = np.unique(np.stack([positions[positions >= 0], output], axis=1), axis=0)
    counts = np.bincount(pairs[:, 0], minlength=in_size)
    starts = np.cumsum(counts) - counts
    taps = np.arange(max(1, counts.max(initial=0)))
    index = starts[:, None] + np.minimum(taps, np.maximum(counts - 1, 0)[:, None])  # the last one is repeated
    inverse = np.append(pairs[:, 1], BEFORE)[np.minimum(index, len(pairs))]
    return np.ascontiguousarray(np.where(counts[:, None] > 0, inverse, BEFORE).astype(np.int32))


def is_periodic(taps: AxisTaps) -> bool:
    """Tell whether outputs one period on read inputs one period on with the same weights, except at the ends."""
    period_in, period_out = _periods(taps)
    index, weight = taps.index.numpy(), taps.weight.numpy()
    inner = np.arange(2 * period_out, taps.out_size - 3 * period_out)
    if not len(inner):
        return False
    moved = (index[inner + period_out] == index[inner] + period_in).all()
    return bool(moved and np.allclose(weight[inner + period_out], weight[inner], atol=_SAME_WEIGHT))


def _periods(taps: AxisTaps) -> tuple[int, int]:
    """Return the least numbers of inputs and outputs that lie side by side."""
    common = math.gcd(taps.in_size, taps.out_size)
    return taps.in_size // common, taps.out_size // common


def _used(taps: AxisTaps) -> NDArray[np.int32]:
    used = (taps.weight != 0) | (torch.arange(taps.index.shape[1]) == 0)
    first = taps.index[:, :1].expand_as(taps.index)
    index = torch.where(used, taps.index, first).numpy().astype(np.int32)
    inside = np.flatnonzero((index >= 0).any(axis=1))
    middle = inside.mean() if len(inside) else 0.0
    beside = np.where(np.arange(len(index)) > middle, BEHIND, BEFORE).astype(np.int32)[:, None]
    index = np.where(index < 0, beside, index)
    unmarked = _at_the_end(taps) & (index >= 0).all(axis=1)
    if unmarked.any():
        free = ~used.numpy()
        if not free[unmarked].any(axis=1).all():
            index, free = np.hstack([index, index[:, :1]]), np.pad(free, ((0, 0), (0, 1)), constant_values=True)
        last_free = free & (free[:, ::-1].cumsum(axis=1)[:, ::-1] == 1)
        index = np.where(last_free & unmarked[:, None], beside, index)
    return np.ascontiguousarray(index.astype(np.int32))


def _at_the_end(taps: AxisTaps) -> NDArray[np.bool_]:
    """Tell which outputs read other inputs, or with other weights, than those a period further in do; bool [outputs].

    None do where the resampling is not periodic: no shift is the same then on both sides of it.
    """
    outputs = np.arange(taps.out_size)
    if not is_periodic(taps):
        return np.zeros(taps.out_size, np.bool_)
    period_in, period_out = _periods(taps)
    index, weight = taps.index.numpy(), taps.weight.numpy()
    step = np.where(outputs < taps.out_size // 2, 1, -1)
    other = outputs + step * period_out
    expected = np.where(index >= 0, index + step[:, None] * period_in, index)
    is_same = (index[other] == expected).all(axis=1) & np.isclose(weight[other], weight, atol=_SAME_WEIGHT).all(axis=1)
    return np.asarray(~is_same)
