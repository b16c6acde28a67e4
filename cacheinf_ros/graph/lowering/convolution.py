# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for convolutions, transposed ones too, with the arguments of each operator's schema, in its order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cacheinf_ros.graph.ir import Conv, PixelShuffle, Resample
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.view import Shape, View
from cacheinf_ros.graph.make_taps import taps_at
from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps
from cacheinf_ros.graph.window import Pair, Window


def pair(value: int | Sequence[int]) -> Pair:
    """Return a number for each axis, from one number for both axes or one for each."""
    numbers = (value,) if isinstance(value, int) else tuple(int(n) for n in value)
    return (numbers[0], numbers[-1])


def emit_conv(
    b: Builder,
    x: View,
    weight: torch.Tensor,
    bias: Any,
    window: Window,
    groups: int = 1,
    shape: Shape | None = None,
) -> View:
    """Add a convolution of a whole map; a missing bias is None.

    Args:
        shape: shape of the result, where it is not [1, channels, height, width].
    """
    outputs = weight.shape[0]
    if bias is not None and bias.numel() not in (1, outputs):
        raise NotLocal
    if bias is not None:  # a single value, as an ONNX Gemm may have, goes with every output
        bias = bias.reshape(-1).expand(outputs).contiguous()
    return b.emit(
        Conv,
        (x,),
        shape or (1, outputs, *window.out_size),
        weight=weight.float().contiguous(),
        bias=torch.zeros(outputs) if bias is None else bias.float(),
        window=window,
        groups=groups,
    )


def conv2d(b: Builder, x: View, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> View:
    """Lower aten.conv2d; padding may be 'same' or 'valid'."""
    image = b.image(x)
    kernel, stride, dilation = pair(weight.shape[2:]), pair(stride), pair(dilation)
    added = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, kernel, strict=True)]
    before = (added[0] // 2, added[1] // 2) if isinstance(padding, str) else pair(padding)
    after = (added[0] - before[0], added[1] - before[1]) if isinstance(padding, str) else before
    sizes = [
        (image.source.size[i] + before[i] + after[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in (0, 1)
    ]
    window = Window(
        in_size=image.source.size, out_size=(sizes[0], sizes[1]), kernel=kernel, stride=stride, dilation=dilation,
        padding=before,
    )  # fmt: skip
    return emit_conv(b, image, weight, bias, window, groups)


def convolution(plain: Callable[..., View], transposing: Callable[..., View]) -> Callable[..., View]:
    """Return the rule for aten.convolution from those for plain convolutions and for transposed ones."""

    def rule(
        b: Builder, x: View, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
        output_padding: Any, groups: int,
    ) -> View:  # fmt: skip
        if transposed:
            return transposing(b, x, weight, bias, stride, padding, output_padding, groups, dilation)
        return plain(b, x, weight, bias, stride, padding, dilation, groups)

    return rule


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """A transposed convolution along one axis: input i adds weight k to output i * stride + k * dilation - padding."""

    in_size: int
    kernel: int
    stride: int
    padding: int
    output_padding: int
    dilation: int

    @property
    def out_size(self) -> int:
        reach = self.dilation * (self.kernel - 1)
        return (self.in_size - 1) * self.stride - 2 * self.padding + reach + self.output_padding + 1

    @property
    def shifts(self) -> list[int]:
        """How far each weight shifts: output q * stride + phase gets it from input q - shift."""
        return [(k * self.dilation - self.padding) // self.stride for k in range(self.kernel)]

    @property
    def phases(self) -> list[int]:
        """Which outputs get each weight, as a remainder of the stride."""
        return [(k * self.dilation - self.padding) % self.stride for k in range(self.kernel)]

    @property
    def before(self) -> int:
        """The padding of the union of the phases' windows."""
        return max(0, *self.shifts)

    @property
    def taps(self) -> int:
        """The kernel size of the union of the phases' windows."""
        return self.before - min(self.shifts) + 1

    @property
    def steps(self) -> int:
        """The number of outputs of each phase."""
        return -(self.out_size // -self.stride)

    def spread(self) -> AxisTaps:
        """Return taps that put zeros between and around the input, so that a plain window needs no padding."""
        reach = self.dilation * (self.kernel - 1)
        position = torch.arange(self.out_size + reach) - (reach - self.padding)
        at = position.div(self.stride, rounding_mode="floor")
        inside = (position % self.stride == 0) & (at >= 0) & (at < self.in_size)
        return taps_at(torch.where(inside, at, OUTSIDE), self.in_size)


def conv_transpose2d(
    b: Builder,
    x: View,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> View:
    """Lower a transposed convolution to one that computes all stride * stride phases of the output side by side.

    The phases are then shuffled. With unequal strides, it becomes a convolution over the input with zeros in between.
    """
    image = b.image(x)
    numbers = (pair(weight.shape[2:]), pair(stride), pair(padding), pair(output_padding), pair(dilation))
    names = ("kernel", "stride", "padding", "output_padding", "dilation")
    axes = [
        _Axis(in_size=image.source.size[i], **{name: value[i] for name, value in zip(names, numbers, strict=True)})
        for i in (0, 1)
    ]
    weight = weight.unflatten(0, (groups, -1)).transpose(1, 2)  # [groups, out / groups, in / groups, ...]
    shuffled = axes[0].stride == axes[1].stride and all(axis.steps > 0 for axis in axes)
    return (_by_phases if shuffled else _by_zeros)(b, image, weight, bias, axes[0], axes[1])


def _by_zeros(b: Builder, image: View, weight: torch.Tensor, bias: Any, y: _Axis, x: _Axis) -> View:
    rows, columns = y.spread(), x.spread()
    size = (rows.out_size, columns.out_size)
    spread = b.emit(Resample, (image,), (*image.shape[:2], *size), rows=rows, columns=columns)
    window = Window(
        in_size=size, out_size=(y.out_size, x.out_size), kernel=(y.kernel, x.kernel), dilation=(y.dilation, x.dilation)
    )
    return emit_conv(b, spread, weight.flip(3, 4).flatten(0, 1), bias, window, len(weight))


def _by_phases(b: Builder, image: View, weight: torch.Tensor, bias: Any, y: _Axis, x: _Axis) -> View:
    factor, groups = y.stride, len(weight)
    window = Window(
        in_size=image.source.size, out_size=(y.steps, x.steps), kernel=(y.taps, x.taps), padding=(y.before, x.before)
    )
    channels = groups * weight.shape[1]
    biases = torch.zeros(channels) if bias is None else bias
    phase_major = groups == 1  # groups of channels must stay together
    kernels = _phase_kernels(weight, y, x)  # [factor, factor, groups, out / groups, in / groups, ...]
    if phase_major:
        kernels, biases = kernels.flatten(0, 3), biases.repeat(factor * factor)
    else:
        kernels, biases = kernels.permute(2, 3, 0, 1, 4, 5, 6).flatten(0, 3), biases.repeat_interleave(factor * factor)
    result = emit_conv(b, image, kernels, biases, window, groups)
    if factor == 1:
        return result
    size = (y.steps * factor, x.steps * factor)
    result = b.emit(PixelShuffle, (result,), (1, channels, *size), factor=factor, phase_major=phase_major)
    if size == (y.out_size, x.out_size):
        return result
    rows, columns = (taps_at(torch.arange(axis.out_size), n) for axis, n in zip((y, x), size, strict=True))
    return b.emit(Resample, (result,), (1, channels, y.out_size, x.out_size), rows=rows, columns=columns)


def _phase_kernels(weight: torch.Tensor, y: _Axis, x: _Axis) -> torch.Tensor:
    """Put each phase's weights at their places in the union of the windows."""
    kernels = torch.zeros(y.stride, x.stride, *weight.shape[:3], y.taps, x.taps)
    for i, (row_phase, row_shift) in enumerate(zip(y.phases, y.shifts, strict=True)):
        for j, (column_phase, column_shift) in enumerate(zip(x.phases, x.shifts, strict=True)):
            at = (y.before - row_shift, x.before - column_shift)
            kernels[row_phase, column_phase, :, :, :, at[0], at[1]] = weight[..., i, j]
    return kernels
