"""The row kernels in plain torch: gather the neighbourhoods, one matrix product, scatter. Any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from cacheinf_ros.engine.active import ActiveSet, Grow
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.graph.ir import Conv, Pointwise, Pool, resolve
from cacheinf_ros.graph.window import Window

RowKernel = Callable[[ActiveSet], None]
"""Computes the rows of its output that are active."""

_DENSE_SHARE = 0.5  # above it a whole-image torch operator is faster than gathered rows


class ReferenceKernels:
    """Prepares an operator once; what it returns runs it on the active rows of a frame."""

    name = "reference"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def conv(self, op: Conv, source: MapBuffer, target: MapBuffer, residual: MapBuffer | None) -> RowKernel:
        """A convolution with its residual and clamp."""
        weight, bias = op.weight.to(self.device), op.bias.to(self.device)
        taps = _Taps(op.window, self.device)
        w = op.window
        per_group = op.weight.shape[1]
        matrix = weight.flatten(1).unflatten(0, (op.groups, -1)).transpose(1, 2).contiguous()  # [groups, depth, out]

        def dense() -> torch.Tensor:
            padded = functional.pad(source.image, _torch_padding(w))
            image = functional.conv2d(padded, weight, bias, w.stride, (0, 0), w.dilation, op.groups)
            return image[0].flatten(1).t()

        def sparse(rows: torch.Tensor) -> torch.Tensor:
            near = taps.gather(source.rows, rows, 0.0)  # [rows, taps, channels]
            near = near.unflatten(2, (op.groups, per_group)).permute(2, 0, 3, 1).flatten(2)  # [groups, rows, depth]
            return torch.bmm(near, matrix).permute(1, 0, 2).flatten(1) + bias

        def run(active: ActiveSet) -> None:
            rows = self._rows(active)
            result = dense()[rows] if active.count > _DENSE_SHARE * active.pixels else sparse(rows)
            if residual is not None:
                result = result + residual.rows[rows]
            target.rows[rows] = result.clamp(*op.clamp)

        return run

    def pool(self, op: Pool, source: MapBuffer, target: MapBuffer) -> RowKernel:
        """Maximum or average over a window."""
        taps = _Taps(op.window, self.device)
        counts = taps.counts(op.count_padding) if op.average else None

        def run(active: ActiveSet) -> None:
            rows = self._rows(active)
            if counts is None:
                target.rows[rows] = taps.gather(source.rows, rows, float("-inf")).amax(1)
            else:
                target.rows[rows] = taps.gather(source.rows, rows, 0.0).sum(1) / counts[rows, None]

        return run

    def pointwise(self, op: Pointwise, sources: dict[str, MapBuffer], target: MapBuffer) -> RowKernel:
        """Any call that treats every pixel alike: it sees the active pixels as one column [1, channels, rows, 1]."""
        arguments = _on_device(op.arguments, self.device)

        def run(active: ActiveSet) -> None:
            rows = self._rows(active)

            def column(name: str) -> torch.Tensor:
                return sources[name].rows[rows].t()[None, :, :, None]

            target.rows[rows] = op.call(*resolve(arguments, column))[0, :, :, 0].t()

        return run

    def copy(self, source: MapBuffer, target: MapBuffer) -> RowKernel:
        """The rows as they are."""

        def run(active: ActiveSet) -> None:
            rows = self._rows(active)
            target.rows[rows] = source.rows[rows]

        return run

    def grow(self, window: Window) -> Grow:
        """Growth of active sets: the maximum of the mask over the window."""

        def run(source: ActiveSet, target: ActiveSet, outside_is_active: bool) -> None:
            mask = torch.from_numpy(source.mask).float()[None, None]
            padded = functional.pad(mask, _torch_padding(window), value=float(outside_is_active))
            grown = functional.max_pool2d(padded, window.kernel, window.stride, (0, 0), window.dilation)
            np.copyto(target.mask, grown[0, 0].byte().numpy())
            target.use_mask()

        return run

    def _rows(self, active: ActiveSet) -> torch.Tensor:
        return torch.from_numpy(active.rows).to(self.device, torch.int64)


class _Taps:
    """For every output pixel the input pixels under its window; outside the image: an index past the last."""

    def __init__(self, window: Window, device: torch.device) -> None:
        self._window = window
        y, y_inside = _axis(window, 0)
        x, x_inside = _axis(window, 1)
        inside = y_inside[:, None, :, None] & x_inside[None, :, None, :]  # [out_y, out_x, kernel_y, kernel_x]
        index = y[:, None, :, None] * window.in_size[1] + x[None, :, None, :]
        outside = window.in_size[0] * window.in_size[1]
        self._index = torch.where(inside, index, outside).flatten(2).flatten(0, 1).to(device)
        self._inside = inside.flatten(2).flatten(0, 1).to(device)

    def gather(self, rows: torch.Tensor, wanted: torch.Tensor, outside: float) -> torch.Tensor:
        """[wanted, taps, channels]."""
        index = self._index[wanted]
        near = rows[index.clamp(max=len(rows) - 1)]
        return torch.where((index < len(rows))[:, :, None], near, outside)

    def counts(self, count_padding: bool) -> torch.Tensor:
        """[outputs]: how many pixels an average divides by (torch: not what ceil_mode adds beyond the padding)."""
        if not count_padding:
            return self._inside.sum(1)
        lengths = []
        for axis in (0, 1):
            w = self._window
            start = torch.arange(w.out_size[axis]) * w.stride[axis] - w.padding[axis]
            lengths.append((start + w.kernel[axis]).clamp(max=w.in_size[axis] + w.padding[axis]) - start)
        return torch.outer(*lengths).flatten().to(self._index.device)


def _axis(window: Window, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[out, kernel]: input position of each tap along an axis, and whether it lies inside the image."""
    start = torch.arange(window.out_size[axis]) * window.stride[axis] - window.padding[axis]
    position = start[:, None] + torch.arange(window.kernel[axis]) * window.dilation[axis]
    return position, (position >= 0) & (position < window.in_size[axis])


def _torch_padding(window: Window) -> tuple[int, int, int, int]:
    """(left, right, top, bottom), so that a valid window has exactly ``out_size`` outputs."""
    amounts: list[int] = []
    for axis in (1, 0):
        reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
        needed = (window.out_size[axis] - 1) * window.stride[axis] + reach
        amounts += [window.padding[axis], needed - window.in_size[axis] - window.padding[axis]]
    return amounts[0], amounts[1], amounts[2], amounts[3]


def _on_device(arguments: Any, device: torch.device) -> Any:
    if isinstance(arguments, torch.Tensor):
        return arguments.to(device)
    if isinstance(arguments, (tuple, list)):
        return type(arguments)(_on_device(item, device) for item in arguments)
    return arguments
