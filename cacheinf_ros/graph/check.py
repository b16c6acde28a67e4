# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Check a graph that comes from a file: compiled kernels trust every shape and index in it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import ir
from cacheinf_ros.graph.activation import Activation, ActivationKind
from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps
from cacheinf_ros.graph.window import Window

_LARGEST_SIDE = 2**15
_LARGEST_REACH = 2**20  # pixels from the first to the last one that the windows along an axis cover
_MOST_TAPS = 2**24  # of all windows along an axis, and of one resampled pixel: tables list them
_MOST_VALUES = 2**31 - 1  # of a tensor: kernels count in int32


def check_graph(graph: ir.Graph) -> None:
    """Compare what each operator says with the tensors that it reads and writes.

    Raises:
        ModelError: operators and tensors contradict each other: a kernel would read or write outside a tensor's memory.
    """
    for name, spec in graph.tensors.items():
        plain = spec.name == name and spec.levels is None and spec.floats is torch.float32
        sizes = all(type(size) is int and 0 <= size <= _MOST_VALUES for size in spec.shape)
        _demand(plain and sizes and math.prod(spec.shape) <= _MOST_VALUES, f"tensor {name!r} of {spec.shape}")
    written = {graph.input}
    image = graph.tensors.get(graph.input)
    is_picture = image is not None and _is_image(image) and len(image.shape) == 4 and image.channels == ir.COLOURS
    _demand(is_picture, f"the input is no picture [1, {ir.COLOURS}, height, width]")  # frames are written as such
    for operator in graph.operators:
        _demand(
            set(operator.inputs) <= written and operator.output in graph.tensors and operator.output not in written,
            f"operator {operator.name!r} reads what is not there, or writes what is",
        )
        inputs, output = [graph.tensors[name] for name in operator.inputs], graph.tensors[operator.output]
        _demand(_fits(operator, inputs, output), f"operator {operator.name!r} does not fit to its tensors")
        written.add(operator.output)
    _demand(all(name in written for _, name in graph.outputs), "an output is never written")


def _fits(operator: ir.Operator, inputs: list[ir.TensorSpec], output: ir.TensorSpec) -> bool:
    if isinstance(operator, ir.Global):
        return callable(operator.call)  # torch checks its arguments
    if not inputs or not all(_is_image(spec) for spec in (*inputs, output)):
        return False
    first = inputs[0]
    is_alone, keeps_size, keeps_channels = (
        len(inputs) == 1, first.size == output.size, first.channels == output.channels
    )  # fmt: skip
    match operator:
        case ir.Int8Conv():
            return False  # made when an engine starts, and never stored
        case ir.Conv():
            return _conv_fits(operator, inputs, output)
        case ir.Pool():
            return is_alone and keeps_channels and _window_fits(operator.window, first, output)
        case ir.Elementwise():
            return _elementwise_fits(operator, inputs, output)
        case ir.ChannelNorm():
            has_both = all(_is_per_channel(each, output.channels) for each in (operator.weight, operator.bias))
            return is_alone and keeps_channels and keeps_size and has_both
        case ir.ChannelSoftmax():
            return is_alone and keeps_channels and keeps_size
        case ir.Resample():
            return (
                is_alone
                and keeps_channels
                and all(map(_taps_fit, (operator.rows, operator.columns), *_sizes(first, output)))
                and operator.rows.index.shape[1] * operator.columns.index.shape[1] <= _MOST_TAPS
            )
        case ir.PixelShuffle():
            factor, (height, width) = operator.factor, first.size
            return (
                is_alone and 0 < factor < _LARGEST_SIDE and first.channels == output.channels * factor**2
                and output.size == (height * factor, width * factor)
            )  # fmt: skip
        case ir.Select():
            channels = operator.channels
            is_inside = all(type(channel) is int and 0 <= channel < first.channels for channel in channels)
            return is_alone and keeps_size and len(channels) == output.channels and is_inside
        case ir.GlobalMean():
            return is_alone and keeps_channels and output.pixels == 1
        case ir.Concat():
            return sum(spec.channels for spec in inputs) == output.channels and _are_of_size(inputs, output.size)
        case ir.Pointwise():
            return callable(operator.call) and _are_of_size(inputs, output.size)
    return False


def _is_image(spec: ir.TensorSpec) -> bool:
    return spec.is_map and min(spec.shape) > 0 and max(spec.size) < _LARGEST_SIDE


def _are_of_size(specs: Iterable[ir.TensorSpec], size: tuple[int, int]) -> bool:
    return all(spec.size == size for spec in specs)


def _sizes(*specs: ir.TensorSpec) -> list[tuple[int, int]]:
    return [spec.size for spec in specs]


def _are_per_channel(parameters: Iterable[torch.Tensor | None], channels: int) -> bool:
    """Tell whether all parameters that are not None have one float32 for each channel."""
    return all(p is None or _is_per_channel(p, channels) for p in parameters)


def _is_per_channel(p: torch.Tensor, channels: int) -> bool:
    return isinstance(p, torch.Tensor) and p.dtype == torch.float32 and tuple(p.shape) == (channels,)


def _activation_fits(activation: Activation, channels: int) -> bool:
    has_slope = activation.slope is not None or activation.kind is not ActivationKind.PRELU
    return has_slope and _are_per_channel([activation.slope], channels)


def _conv_fits(conv: ir.Conv, inputs: list[ir.TensorSpec], output: ir.TensorSpec) -> bool:
    weight, channels = conv.weight, output.channels
    if weight.dim() != 4 or weight.dtype != torch.float32 or conv.groups < 1 or len(inputs) > 2:
        return False
    outputs, read, *kernel = weight.shape
    return (
        outputs == channels
        and channels % conv.groups == 0
        and inputs[0].channels == read * conv.groups
        and tuple(kernel) == tuple(conv.window.kernel)
        and _is_per_channel(conv.bias, channels)
        and _activation_fits(conv.activation, channels)
        and _window_fits(conv.window, inputs[0], output)
        and all(residual.channels == channels and residual.size == output.size for residual in inputs[1:])
    )


def _window_fits(window: Window, source: ir.TensorSpec, output: ir.TensorSpec) -> bool:
    if window.in_size != source.size or window.out_size != output.size:
        return False
    axes = zip(window.out_size, window.kernel, window.stride, window.dilation, window.padding, strict=True)
    return all(
        min(kernel, stride, dilation) > 0
        and max(kernel, stride, dilation, abs(padding)) < _LARGEST_SIDE
        and (out - 1) * stride + dilation * (kernel - 1) < _LARGEST_REACH
        and out * kernel <= _MOST_TAPS
        for out, kernel, stride, dilation, padding in axes
    )


def _elementwise_fits(operator: ir.Elementwise, inputs: list[ir.TensorSpec], output: ir.TensorSpec) -> bool:
    channels = output.channels
    return (
        len(inputs) <= (1 if operator.combine is None else 2)
        and all(spec.channels == channels and (spec.size == output.size or spec.pixels == 1) for spec in inputs)
        and _are_per_channel([operator.scale, operator.shift], channels)
        and _activation_fits(operator.activation, channels)
    )


def _taps_fit(taps: AxisTaps, size: int, out: int) -> bool:
    index, weight = taps.index, taps.weight
    return (
        index.dtype == torch.int32
        and weight.dtype == torch.float32
        and index.shape == weight.shape
        and index.dim() == 2
        and index.shape[0] == out
        and 0 < index.shape[1] <= _LARGEST_SIDE
        and taps.in_size == size
        and int(index.min()) >= OUTSIDE
        and int(index.max()) < size
    )


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ModelError(f"it holds no graph that can be run: {otherwise}")
