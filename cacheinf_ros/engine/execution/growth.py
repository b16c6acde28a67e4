"""How active sets grow: which output pixels depend on an active input pixel, for every separable local operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.active import ActiveSet, Size
from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps
from cacheinf_ros.graph.window import Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """Which input pixels each output pixel reads.

    Attributes:
        rows: int32 [out_height, taps]: positions along y, :data:`OUTSIDE` beside the image.
        columns: int32 [out_width, taps]: positions along x.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]

    @property
    def out_size(self) -> Size:
        """(height, width) of the output."""
        return len(self.rows), len(self.columns)

    @classmethod
    def of_window(cls, window: Window) -> Reach:
        """Of a sliding window."""
        return cls(rows=_window_axis(window, 0), columns=_window_axis(window, 1))

    @classmethod
    def of_taps(cls, rows: AxisTaps, columns: AxisTaps) -> Reach:
        """Of a resampling. A tap beside the image whose weight is 0 is none at all: it repeats another."""
        return cls(rows=_used(rows), columns=_used(columns))

    @classmethod
    def of_shuffle(cls, in_size: Size, factor: int) -> Reach:
        """Of a pixel shuffle."""
        rows, columns = (np.repeat(np.arange(n, dtype=np.int32), factor)[:, None] for n in in_size)
        return cls(rows=rows, columns=columns)


def grow(reach: Reach, source: ActiveSet, target: ActiveSet, outside_is_active: bool) -> None:
    """Fill the target with the outputs that depend on an active pixel of the source."""
    padded = np.full((source.size[0] + 1, source.size[1] + 1), outside_is_active, np.uint8)  # OUTSIDE is the last
    padded[:-1, :-1] = source.mask
    along = np.bitwise_or.reduce([padded[:, column] for column in reach.columns.T])
    np.copyto(target.mask, np.bitwise_or.reduce([along[row] for row in reach.rows.T]))
    target.use_mask()


def _window_axis(window: Window, axis: int) -> NDArray[np.int32]:
    starts = np.arange(window.out_size[axis]) * window.stride[axis] - window.padding[axis]
    position = starts[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
    inside = (position >= 0) & (position < window.in_size[axis])
    return np.where(inside, position, OUTSIDE).astype(np.int32)


def _used(taps: AxisTaps) -> NDArray[np.int32]:
    used = (taps.weight != 0) | (torch.arange(taps.index.shape[1]) == 0)
    first = taps.index[:, :1].expand_as(taps.index)
    return np.ascontiguousarray(torch.where(used, taps.index, first).numpy().astype(np.int32))
