# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds which input pixels each output pixel reads, as indices for gathering them."""

from __future__ import annotations

import torch

from cacheinf_ros.graph import Window
from cacheinf_ros.graph.ir import Resample

Axis = tuple[torch.Tensor, torch.Tensor]
"""Each tap's input position along an axis, int64 [out, taps], and whether it is in the image, bool [out, taps]."""


class Neighbours:
    """The input pixels that every output pixel reads: the combinations of its line's taps and its column's."""

    def __init__(self, y: Axis, x: Axis, in_width: int, device: torch.device) -> None:
        self._y, self._y_inside = (part.to(device) for part in y)
        self._x, self._x_inside = (part.to(device) for part in x)
        self._in_width, self._out_width = in_width, len(x[0])

    @classmethod
    def of_window(cls, window: Window, device: torch.device) -> Neighbours:
        """Return the neighbours in a sliding window."""
        return cls(_window_axis(window, 0), _window_axis(window, 1), window.in_size[1], device)

    @classmethod
    def of_resampling(cls, op: Resample, device: torch.device) -> Neighbours:
        """Return the neighbours that a resampling reads."""
        y, x = ((taps.index.long(), taps.index >= 0) for taps in (op.rows, op.columns))
        return cls(y, x, op.columns.in_size, device)

    def gather(self, pixels: torch.Tensor, wanted: torch.Tensor, outside: float) -> torch.Tensor:
        """Gather the pixels of a map that wanted outputs read, [wanted, taps, channels].

        Args:
            pixels: the map, [pixels, channels].
            wanted: int64 [wanted]: indices of output pixels.
            outside: the value beside the image.
        """
        y, x = wanted // self._out_width, wanted % self._out_width
        index = self._y[y][:, :, None] * self._in_width + self._x[x][:, None, :]
        inside = self.inside(wanted)
        return pixels[torch.where(inside, index.flatten(1), 0)].masked_fill(~inside[:, :, None], outside)

    def inside(self, wanted: torch.Tensor) -> torch.Tensor:
        """Tell which taps of the wanted outputs lie inside the image, bool [wanted, taps]."""
        y, x = wanted // self._out_width, wanted % self._out_width
        return (self._y_inside[y][:, :, None] & self._x_inside[x][:, None, :]).flatten(1)


def averaged_pixels(window: Window, count_padding: bool) -> torch.Tensor:
    """Return how many pixels an average divides by, float32 [outputs].

    As in torch, pixels that ceil_mode adds beyond the padding never count.
    """
    lengths = []
    for axis in (0, 1):
        _, inside = _window_axis(window, axis)
        start = _starts(window, axis)
        padded = (start + window.kernel[axis]).clamp(max=window.in_size[axis] + window.padding[axis]) - start
        lengths.append(padded if count_padding else inside.sum(1))
    return torch.outer(*lengths).flatten().float()


def _starts(window: Window, axis: int) -> torch.Tensor:
    return torch.arange(window.out_size[axis]) * window.stride[axis] - window.padding[axis]


def _window_axis(window: Window, axis: int) -> Axis:
    position = _starts(window, axis)[:, None] + torch.arange(window.kernel[axis]) * window.dilation[axis]
    return position, (position >= 0) & (position < window.in_size[axis])
