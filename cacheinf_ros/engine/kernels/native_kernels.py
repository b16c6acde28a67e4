# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels on listed pixels that are compiled from ``native/``."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels.abi import (
    CActivation,
    CChannelNorm,
    CChannelSoftmax,
    CConv,
    CElementwise,
    CGlobalMean,
    CPixelShuffle,
    CPool,
    CResample,
    CSelect,
    CWindow,
    KernelKind,
    activation_number,
    combine_number,
)
from cacheinf_ros.engine.kernels.prepared import NativeCall
from cacheinf_ros.graph import Activation, SharedValues, ir

_CPU = torch.device("cpu")
_FEW_CHANNELS = 32  # of the output, for which gathering inputs first does not pay
_ALTERNATIVES = {KernelKind.CONV: KernelKind.CONV_IN_PLACE, KernelKind.CONV_IN_PLACE: KernelKind.CONV}


class NativeKernels:
    """Prepares operators for the compiled library."""

    def __init__(self, library: ctypes.CDLL, shared: SharedValues, *, bfloat16: bool = False) -> None:
        """Prepare.

        Args:
            shared: holds packed weights for all that are given it.
            bfloat16: whether convolutions round inputs and weights to it.
        """
        self._library = library
        self._shared = shared
        self._bfloat16 = bfloat16

    def prepare(self, op: ir.Operator, sources: Sequence[MapBuffer], channels: int) -> NativeCall | None:
        """The call of a local operator, or None where only torch can do it.

        Args:
            sources: the maps of its inputs, in their order.
            channels: of the output.
        """
        match op:
            case ir.Conv():
                return self._conv(op, sources)
            case ir.Pool():
                return _pool(op, sources[0])
            case ir.Elementwise():
                return _elementwise(op, sources)
            case ir.ChannelNorm():
                return _channel_norm(op, sources[0])
            case ir.ChannelSoftmax():
                return _channel_softmax(op, sources[0])
            case ir.Resample():
                return _resample(op, sources[0])
            case ir.PixelShuffle():
                return _pixel_shuffle(op, sources[0], channels)
            case ir.Select():
                return _select(op, sources[0])
            case ir.GlobalMean():
                return _global_mean(sources[0])
        return None

    def alternative(self, call: NativeCall) -> NativeCall | None:
        """Another kernel that computes the same: which one is faster depends on shapes, pixels and machine."""
        other = _ALTERNATIVES.get(call.kind) if isinstance(call.kind, KernelKind) else None
        return None if other is None else replace(call, kind=other)

    def _conv(self, op: ir.Conv, sources: Sequence[MapBuffer]) -> NativeCall:
        kind = _conv_kind(op, bfloat16=self._bfloat16)
        source, residual = sources[0].pixels, sources[1].pixels if len(sources) > 1 else None
        weight = self._shared.get(op.weight, (kind, op.groups), lambda: self._weight(op, kind))
        bias = op.bias.contiguous()
        activation, slope = encoded_activation(op.activation)
        params = CConv(activation=activation, **conv_fields(op, sources, weight.value, bias))
        return NativeCall(kind=kind, params=params, kept=(source, residual, weight, bias, slope))

    def _weight(self, op: ir.Conv, kind: KernelKind) -> torch.Tensor:
        """The weights in the order in which a kernel reads them."""
        if kind is KernelKind.DEPTHWISE:
            return _by_tap(op)
        packed = self._packed(op)
        return self._in_pairs(packed) if kind is KernelKind.CONV_BFLOAT16 else packed

    def _packed(self, op: ir.Conv) -> torch.Tensor:
        outputs, inputs, height, width = op.weight.shape
        sizes = (op.groups, outputs // op.groups, inputs, height * width)
        packed = MapBuffer.allocate((1, 1), self._library.ci_packed_size(*sizes), _CPU).pixels
        weight = op.weight.contiguous()
        self._library.ci_pack_weight(weight.data_ptr(), packed.data_ptr(), *sizes)
        return packed

    def _in_pairs(self, packed: torch.Tensor) -> torch.Tensor:
        """Packed weights as bfloat16; two that follow each other in depth lie together."""
        columns = self._library.ci_packed_columns()
        pairs = packed.view(-1, 2, columns).transpose(1, 2).to(torch.bfloat16)
        halves = MapBuffer.allocate((1, 1), packed.numel() // 2, _CPU).pixels.view(torch.bfloat16)
        return halves.copy_(pairs.reshape(1, -1))


def _conv_kind(op: ir.Conv, *, bfloat16: bool) -> KernelKind:
    """The kernel that is likely to be the fastest; measurements decide (see ``alternative``)."""
    if op.is_depthwise:
        return KernelKind.DEPTHWISE
    if op.weight.shape[0] // op.groups <= _FEW_CHANNELS:
        return KernelKind.CONV_IN_PLACE
    return KernelKind.CONV_BFLOAT16 if bfloat16 else KernelKind.CONV


def _by_tap(op: ir.Conv) -> torch.Tensor:
    """[channels, 1, kernel_y, kernel_x] -> [taps, channels]."""
    return op.weight.flatten(1).t().contiguous()


def _pool(op: ir.Pool, source: MapBuffer) -> NativeCall:
    params = CPool(
        window=CWindow.of(op.window),
        channels=source.pixels.shape[1],
        average=op.average,
        count_padding=op.count_padding,
        **_input(source),
    )
    return NativeCall(kind=KernelKind.POOL, params=params, kept=(source,))


def _elementwise(op: ir.Elementwise, sources: Sequence[MapBuffer]) -> NativeCall:
    a, b = sources[0].pixels, sources[-1].pixels if op.combine else None  # one source twice: x * x
    scale, shift = (None if t is None else t.contiguous() for t in (op.scale, op.shift))
    activation, slope = encoded_activation(op.activation)
    params = CElementwise(
        combine=combine_number(op.combine),
        channels=a.shape[1],
        activation=activation,
        a_pitch=_broadcast_pitch(a),
        b_pitch=0 if b is None else _broadcast_pitch(b),
        a=a.data_ptr(),
        b=_address(b),
        scale=_address(scale),
        shift=_address(shift),
    )
    return NativeCall(kind=KernelKind.ELEMENTWISE, params=params, kept=(a, b, scale, shift, slope))


def _channel_norm(op: ir.ChannelNorm, source: MapBuffer) -> NativeCall:
    weight, bias = op.weight.contiguous(), op.bias.contiguous()
    params = CChannelNorm(
        channels=source.pixels.shape[1],
        epsilon=op.epsilon,
        weight=weight.data_ptr(),
        bias=bias.data_ptr(),
        **_input(source),
    )
    return NativeCall(kind=KernelKind.CHANNEL_NORM, params=params, kept=(source, weight, bias))


def _channel_softmax(op: ir.ChannelSoftmax, source: MapBuffer) -> NativeCall:
    params = CChannelSoftmax(channels=source.pixels.shape[1], log=op.log, **_input(source))
    return NativeCall(kind=KernelKind.CHANNEL_SOFTMAX, params=params, kept=(source,))


def _resample(op: ir.Resample, source: MapBuffer) -> NativeCall:
    index_y, index_x = (taps.index.to(torch.int32).contiguous() for taps in (op.rows, op.columns))
    weight_y, weight_x = (taps.weight.contiguous() for taps in (op.rows, op.columns))
    params = CResample(
        channels=source.pixels.shape[1],
        in_width=source.size[1],
        out_width=op.columns.out_size,
        taps_y=index_y.shape[1],
        taps_x=index_x.shape[1],
        fill=op.fill,
        index_y=index_y.data_ptr(),
        index_x=index_x.data_ptr(),
        weight_y=weight_y.data_ptr(),
        weight_x=weight_x.data_ptr(),
        **_input(source),
    )
    return NativeCall(kind=KernelKind.RESAMPLE, params=params, kept=(source, index_y, index_x, weight_y, weight_x))


def _pixel_shuffle(op: ir.PixelShuffle, source: MapBuffer, channels: int) -> NativeCall:
    params = CPixelShuffle(
        channels=channels,
        out_width=source.size[1] * op.factor,
        factor=op.factor,
        phase_major=op.phase_major,
        **_input(source),
    )
    return NativeCall(kind=KernelKind.PIXEL_SHUFFLE, params=params, kept=(source,))


def _select(op: ir.Select, source: MapBuffer) -> NativeCall:
    first, count = op.channels[0], len(op.channels)
    if op.is_together:
        part = source.channels(first, count)
        return NativeCall(kind=KernelKind.SELECT, params=CSelect(channels=count, **_input(part)), kept=(part,))
    index = torch.tensor(op.channels, dtype=torch.int32)
    params = CSelect(channels=count, index=index.data_ptr(), **_input(source))
    return NativeCall(kind=KernelKind.SELECT, params=params, kept=(source, index))


def _global_mean(source: MapBuffer) -> NativeCall:
    pixels, channels = source.pixels.shape
    params = CGlobalMean(channels=channels, pixels=pixels, **_input(source))
    return NativeCall(kind=KernelKind.GLOBAL_MEAN, params=params, kept=(source,))


def conv_fields(op: ir.Conv, sources: Sequence[MapBuffer], weight: torch.Tensor, bias: torch.Tensor) -> dict[str, Any]:
    """The fields of every structure of a convolution, but the activation; ``weight``: as its kernel reads it."""
    residual = sources[1].pixels if len(sources) > 1 else None
    return {
        "window": CWindow.of(op.window),
        "groups": op.groups,
        "in_channels": op.weight.shape[1],
        "out_channels": op.weight.shape[0] // op.groups,
        "residual_last": op.residual_last,
        "residual_pitch": 0 if residual is None else residual.stride(0),
        "weight": weight.data_ptr(),
        "bias": bias.data_ptr(),
        "residual": _address(residual),
        **_input(sources[0]),
    }


def _input(source: MapBuffer) -> dict[str, int]:
    """The fields of every structure that reads one map."""
    return {"in_pitch": source.pixels.stride(0), "in": source.pixels.data_ptr()}


def _broadcast_pitch(pixels: torch.Tensor) -> int:
    """0 for a single pixel, which goes with every pixel of the other input."""
    return 0 if len(pixels) == 1 else pixels.stride(0)


def _address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def encoded_activation(activation: Activation, unit: float = 1.0) -> tuple[CActivation, torch.Tensor | None]:
    """The structure, its bounds in these units, and the tensor that it points to."""
    slope = None if activation.slope is None else activation.slope.contiguous()
    kind = activation_number(activation.kind)
    low, high, alpha = activation.low / unit, activation.high / unit, activation.alpha
    return CActivation(kind=kind, low=low, high=high, alpha=alpha, slope=_address(slope)), slope
