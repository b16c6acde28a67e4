# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which input pixels an output pixel reads, as indices to gather them with."""

from __future__ import annotations

import torch

from cacheinf_ros.graph import Window
from cacheinf_ros.graph.ir import Resample

Axis = tuple[torch.Tensor, torch.Tensor]
"""int64 [out, taps]: input position of each tap along an axis; bool [out, taps]: whether it lies inside the image."""


class Neighbours:
    """Knows the input pixels of every output pixel's taps, which are those of its line times those of its column."""

    def __init__(self, y: Axis, x: Axis, in_width: int, device: torch.device) -> None:
        self._y, self._y_inside = (part.to(device) for part in y)
        self._x, self._x_inside = (part.to(device) for part in x)
        self._in_width, self._out_width = in_width, len(x[0])

    @classmethod
    def of_window(cls, window: Window, device: torch.device) -> Neighbours:
        """The neighbours in a sliding window."""
        return cls(_window_axis(window, 0), _window_axis(window, 1), window.in_size[1], device)

    @classmethod
    def of_resampling(cls, op: Resample, device: torch.device) -> Neighbours:
        """The neighbours that a resampling reads."""
        y, x = ((taps.index.long(), taps.index >= 0) for taps in (op.rows, op.columns))
        return cls(y, x, op.columns.in_size, device)

    def gather(self, pixels: torch.Tensor, wanted: torch.Tensor, outside: float) -> torch.Tensor:
        """[wanted, taps, channels]: the pixels of a map around the wanted outputs; ``outside`` beside the image."""
        y, x = wanted // self._out_width, wanted % self._out_width
        index = self._y[y][:, :, None] * self._in_width + self._x[x][:, None, :]
        inside = self.inside(wanted)
        return pixels[torch.where(inside, index.flatten(1), 0)].masked_fill(~inside[:, :, None], outside)

    def inside(self, wanted: torch.Tensor) -> torch.Tensor:
        """bool [wanted, taps]: which taps lie inside the image."""
        y, x = wanted // self._out_width, wanted % self._out_width
        return (self._y_inside[y][:, :, None] & self._x_inside[x][:, None, :]).flatten(1)


def averaged_pixels(window: Window, count_padding: bool) -> torch.Tensor:
    """float32 [outputs]: how many pixels an average divides by.

    As in torch, what ceil_mode adds beyond the padding never counts.
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
