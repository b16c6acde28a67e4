# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels on listed pixels in plain torch, for any device: they gather neighbourhoods and multiply matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels.gathering import Neighbours, averaged_pixels
from cacheinf_ros.engine.kernels.prepared import PixelFunction
from cacheinf_ros.graph import COMBINED_BY, exact_border
from cacheinf_ros.graph.ir import (
    ChannelNorm,
    ChannelSoftmax,
    Conv,
    Elementwise,
    GlobalMean,
    Operator,
    PixelShuffle,
    Pointwise,
    Pool,
    Resample,
    Select,
    resolve,
)

_DENSE_SHARE = 0.5  # with more than this share of the pixels, torch is faster on the whole image than on gathered rows


class ReferenceKernels:
    """Prepares operators; the functions that it returns compute pixels of their outputs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def prepare(self, op: Operator, sources: Sequence[MapBuffer], channels: int) -> PixelFunction:
        """Return the function that computes a local operator; concatenations have been replaced by selections.

        Args:
            op: the operator.
            sources: the maps of its inputs, in their order. They are read when the function is called.
            channels: the channels of the output.

        Raises:
            TypeError: the operator is not computed pixel by pixel.
        """
        match op:
            case Conv():
                return _conv(op, sources, self._device)
            case Pool():
                return _pool(op, sources[0], self._device)
            case Elementwise():
                return _elementwise(op, sources, self._device)
            case ChannelNorm():
                return _channel_norm(op, sources[0], self._device)
            case ChannelSoftmax():
                return _channel_softmax(op, sources[0])
            case Resample():
                return _resample(op, sources[0], self._device)
            case PixelShuffle():
                return _pixel_shuffle(op, sources[0], channels)
            case Select():
                return _select(op, sources[0], self._device)
            case GlobalMean():
                return lambda listed: sources[0].pixels.mean(0, keepdim=True)
            case Pointwise():
                return _pointwise(op, sources, self._device)
        raise TypeError(f"{type(op).__name__} {op.name} is not computed by pixels")


def _conv(op: Conv, sources: Sequence[MapBuffer], device: torch.device) -> PixelFunction:
    source, w = sources[0], op.window
    weight, bias, activation = op.weight.to(device), op.bias.to(device), op.activation.on(device)
    neighbours = Neighbours.of_window(w, device)
    per_group = weight.shape[1]
    matrix = weight.flatten(1).unflatten(0, (op.groups, -1)).transpose(1, 2).contiguous()  # [groups, depth, out]

    def dense() -> torch.Tensor:
        padded = functional.pad(source.image, exact_border(w))
        return _as_pixels(functional.conv2d(padded, weight, bias, w.stride, (0, 0), w.dilation, op.groups))

    def sparse(listed: torch.Tensor) -> torch.Tensor:
        near = neighbours.gather(source.pixels, listed, 0.0)  # [listed, taps, channels]
        near = near.unflatten(2, (op.groups, per_group)).permute(2, 0, 3, 1).flatten(2)  # [groups, listed, depth]
        return torch.bmm(near, matrix).permute(1, 0, 2).flatten(1) + bias

    def compute(listed: torch.Tensor) -> torch.Tensor:
        result = dense()[listed] if _are_most(listed, w.out_size) else sparse(listed)
        if len(sources) == 1:
            return activation(result)
        residual = sources[1].pixels[listed]
        return activation(result) + residual if op.residual_last else activation(result + residual)

    return compute


def _pool(op: Pool, source: MapBuffer, device: torch.device) -> PixelFunction:
    w, outside = op.window, 0.0 if op.average else float("-inf")
    neighbours, padding = Neighbours.of_window(w, device), exact_border(w)
    counts = averaged_pixels(w, op.count_padding).to(device)[:, None]

    def dense() -> torch.Tensor:
        padded = functional.pad(source.image, padding, value=outside)
        if op.average:
            return _as_pixels(functional.avg_pool2d(padded, w.kernel, w.stride, divisor_override=1))
        return _as_pixels(functional.max_pool2d(padded, w.kernel, w.stride, (0, 0), w.dilation))

    def sparse(listed: torch.Tensor) -> torch.Tensor:
        near = neighbours.gather(source.pixels, listed, outside)
        return near.sum(1) if op.average else near.amax(1)

    def compute(listed: torch.Tensor) -> torch.Tensor:
        result = dense()[listed] if _are_most(listed, w.out_size) else sparse(listed)
        return result / counts[listed] if op.average else result

    return compute


def _elementwise(op: Elementwise, sources: Sequence[MapBuffer], device: torch.device) -> PixelFunction:
    scale, shift = (None if t is None else t.to(device) for t in (op.scale, op.shift))
    activation = op.activation.on(device)

    def compute(listed: torch.Tensor) -> torch.Tensor:
        result = _at(sources[0], listed)
        if op.combine is not None:
            result = COMBINED_BY[op.combine](result, _at(sources[-1], listed))  # one source twice: x * x
        result = result if scale is None else result * scale
        return activation(result if shift is None else result + shift)

    return compute


def _channel_norm(op: ChannelNorm, source: MapBuffer, device: torch.device) -> PixelFunction:
    weight, bias = op.weight.to(device), op.bias.to(device)
    return lambda listed: functional.layer_norm(source.pixels[listed], weight.shape, weight, bias, op.epsilon)


def _channel_softmax(op: ChannelSoftmax, source: MapBuffer) -> PixelFunction:
    function = torch.log_softmax if op.log else torch.softmax
    return lambda listed: function(source.pixels[listed], 1)


def _resample(op: Resample, source: MapBuffer, device: torch.device) -> PixelFunction:
    neighbours = Neighbours.of_resampling(op, device)
    weight_y, weight_x = op.rows.weight.to(device), op.columns.weight.to(device)
    single = weight_y.shape[1] == weight_x.shape[1] == 1

    def compute(listed: torch.Tensor) -> torch.Tensor:
        y, x = listed // op.columns.out_size, listed % op.columns.out_size
        weight = (weight_y[y][:, :, None] * weight_x[x][:, None, :]).flatten(1)
        result = torch.bmm(weight[:, None], neighbours.gather(source.pixels, listed, 0.0))[:, 0]
        return result.masked_fill(~neighbours.inside(listed), op.fill) if single else result

    return compute


def _pixel_shuffle(op: PixelShuffle, source: MapBuffer, channels: int) -> PixelFunction:
    f, width = op.factor, source.size[1]

    def compute(listed: torch.Tensor) -> torch.Tensor:
        y, x = listed // (width * f), listed % (width * f)
        near, phase = source.pixels[y // f * width + x // f], y % f * f + x % f
        each = torch.arange(len(listed), device=listed.device)
        if op.phase_major:
            return near.unflatten(1, (f * f, channels))[each, phase]
        return near.unflatten(1, (channels, f * f))[each, :, phase]

    return compute


def _select(op: Select, source: MapBuffer, device: torch.device) -> PixelFunction:
    index = torch.tensor(op.channels, device=device)
    return lambda listed: source.pixels[listed[:, None], index]


def _pointwise(op: Pointwise, sources: Sequence[MapBuffer], device: torch.device) -> PixelFunction:
    """Return the function of a pointwise operator, whose call sees pixels as one column [1, channels, listed, 1]."""
    maps = dict(zip(op.inputs, sources, strict=True))
    arguments = on_device(op.arguments, device)

    def compute(listed: torch.Tensor) -> torch.Tensor:
        return _as_pixels(op.call(*resolve(arguments, lambda name: _at(maps[name], listed).t()[None, :, :, None])))

    return compute


def _at(source: MapBuffer, listed: torch.Tensor) -> torch.Tensor:
    """Return the listed pixels of a map as float32; a map of a single pixel is broadcast to all of them."""
    return (source.pixels if len(source.pixels) == 1 else source.pixels[listed]).float()


def _as_pixels(image: torch.Tensor) -> torch.Tensor:
    """Reshape an image, [1, channels, height, width], to [pixels, channels]."""
    return image[0].flatten(1).t()


def _are_most(listed: torch.Tensor, size: tuple[int, int]) -> bool:
    return len(listed) > _DENSE_SHARE * size[0] * size[1]


def on_device(arguments: Any, device: torch.device) -> Any:
    """Return the arguments of a call, with all tensors among them moved to a device."""
    if isinstance(arguments, torch.Tensor):
        return arguments.to(device)
    if isinstance(arguments, dict):
        return {key: on_device(value, device) for key, value in arguments.items()}
    if isinstance(arguments, (tuple, list)):
        return type(arguments)(on_device(item, device) for item in arguments)
    return arguments
