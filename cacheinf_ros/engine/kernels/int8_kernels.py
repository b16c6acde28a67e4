# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prepares the compiled kernels on levels, and converts between float values and levels."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import torch

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels.abi import (
    CConvert,
    CConvInt8,
    CElementwiseInt8,
    CGlobalMeanInt8,
    CLevels,
    CPoolInt8,
    CResampleInt8,
    Int8KernelKind,
)
from cacheinf_ros.engine.kernels.native_kernels import (
    NativeKernels,
    conv_fields,
    encoded_activation,
    has_whole_lines,
)
from cacheinf_ros.engine.kernels.prepared import NativeCall
from cacheinf_ros.graph import ir
from cacheinf_ros.graph.ir import Levels

_MOST_BIAS = 2**30  # so that an int32 holds the bias together with the sum that is added to it
_MOST_LEVEL = 255


def to_levels(values: torch.Tensor, levels: Levels) -> torch.Tensor:
    """Round float32 values to the nearest levels, uint8."""
    return (values / levels.scale).round().add(levels.zero).clamp(0, _MOST_LEVEL).to(torch.uint8)


def to_values(pixels: torch.Tensor, levels: Levels | None) -> torch.Tensor:
    """Return the float32 values that levels stand for, or the pixels themselves where ``levels`` is None."""
    return pixels if levels is None else (pixels.float() - levels.zero) * levels.scale


def rounded_weights(op: ir.Int8Conv) -> torch.Tensor:
    """Return the rounded weights of a convolution, int8, in the shape of its weights."""
    steps = op.weight / op.weight_scale[:, None, None, None]
    return steps.round().clamp(-128, 127).to(torch.int8)


class Int8Kernels:
    """Prepares operators that read or write levels for the compiled library."""

    def __init__(self, library: ctypes.CDLL, native: NativeKernels) -> None:
        """Prepare nothing yet; ``native``: prepares the parameters that do not depend on levels, and packs weights."""
        self._native = native
        self._library = library

    def prepare(self, op: ir.Operator, sources: Sequence[MapBuffer], channels: int, out: Levels | None) -> NativeCall:
        """Return the call of a local operator.

        Args:
            op: the operator.
            sources: the maps of its inputs, in their order.
            channels: the channels of the output.
            out: what the output's levels stand for; None: it holds floats.

        Raises:
            TypeError: the operator has no kernel on levels.
        """
        if isinstance(op, ir.Int8Conv):
            return self._conv(op, sources, out)
        if isinstance(op, ir.Convert):
            return _convert(sources[0], out)
        plain = self._native.prepare(op, sources, channels)
        if plain is None or isinstance(op, ir.Conv):
            raise TypeError(f"{type(op).__name__} {op.name} is not computed on levels")
        return _on_levels(op, plain, sources, out)

    def _conv(self, op: ir.Int8Conv, sources: Sequence[MapBuffer], out: Levels | None) -> NativeCall:
        source, residual = sources[0], sources[1] if len(sources) > 1 else None
        levels = source.levels
        assert levels is not None and (residual is None or residual.levels is not None)
        unit = 1.0 if out is None else out.scale
        rounded = rounded_weights(op)
        whole_lines = has_whole_lines(op, source.pixels)
        if op.is_depthwise:
            weight = _by_tap(rounded)
        else:
            weight = self._native.packed_runs(rounded, op.groups, whole_lines=whole_lines)
        in_sums = levels.scale * op.weight_scale.double()  # what one unit of a sum stands for
        bias = (op.bias.double() / in_sums).round()
        if not op.is_depthwise:  # the depthwise kernel subtracts the zero itself, for taps inside the image only
            bias -= levels.zero * rounded.flatten(1).sum(1, dtype=torch.int64)
        bias = bias.clamp(-_MOST_BIAS, _MOST_BIAS).to(torch.int32)
        multiplier = (in_sums / unit).float()
        activation, slope = encoded_activation(op.activation, unit)
        params = CConvInt8(
            activation=activation,
            multiplier=multiplier.data_ptr(),
            unit=unit,
            in_zero=levels.zero,
            out=CLevels.of(out),
            whole_lines=whole_lines,
            **conv_fields(op, sources, weight, bias),
        )
        if residual is not None and residual.levels is not None:
            params.residual_factor, params.residual_zero = residual.levels.scale / unit, residual.levels.zero
        kind = Int8KernelKind.DEPTHWISE_INT8 if op.is_depthwise else self._conv_kind
        return NativeCall(kind=kind, params=params, kept=(source, residual, weight, bias, multiplier, slope))

    @property
    def _conv_kind(self) -> Int8KernelKind:
        """The fastest kernel for convolutions on this machine; all compute the same."""
        if self._native.uses_tiles:
            return Int8KernelKind.CONV_INT8_TILES
        return Int8KernelKind.CONV_INT8 if self._library.ci_has_byte_dot() else Int8KernelKind.CONV_INT8_PAIRS


def _on_levels(op: ir.Operator, plain: NativeCall, sources: Sequence[MapBuffer], out: Levels | None) -> NativeCall:
    """Return the call of a kernel on levels; ``plain``: the call for floats, from which it takes the parameters."""
    a, b = sources[0].levels, sources[-1].levels
    kept, params = plain.kept, plain.params
    match op:
        case ir.Elementwise():
            operands = {"a": CLevels.of(a), "b": CLevels.of(b), "out": CLevels.of(out)}
            return NativeCall(
                kind=Int8KernelKind.ELEMENTWISE_INT8, params=CElementwiseInt8(elementwise=params, **operands), kept=kept
            )
        case ir.GlobalMean():
            mean = CGlobalMeanInt8(mean=params, out=CLevels.of(out), **{"in": CLevels.of(a)})
            return NativeCall(kind=Int8KernelKind.GLOBAL_MEAN_INT8, params=mean, kept=kept)
    if a is None or out is None:
        raise TypeError(f"{type(op).__name__} {op.name} is not computed on levels and floats")
    ends = {"factor": a.scale / out.scale, "in_zero": a.zero, "out_zero": out.zero}
    match op:
        case ir.Pool():
            assert op.average or a == out
            return NativeCall(kind=Int8KernelKind.POOL_INT8, params=CPoolInt8(pool=params, **ends), kept=kept)
        case ir.Resample():
            resample = CResampleInt8(resample=params, fill=_level(op.fill, out), **ends)
            return NativeCall(kind=Int8KernelKind.RESAMPLE_INT8, params=resample, kept=kept)
        case ir.PixelShuffle():
            assert a == out
            return NativeCall(kind=Int8KernelKind.PIXEL_SHUFFLE_INT8, params=params, kept=kept)
        case ir.Select():
            assert a == out
            return NativeCall(kind=Int8KernelKind.SELECT_INT8, params=params, kept=kept)
    raise TypeError(f"{type(op).__name__} {op.name} is not computed on levels")


def _level(value: float, levels: Levels) -> int:
    if math.isinf(value):
        return 0 if value < 0 else _MOST_LEVEL
    return int(to_levels(torch.tensor(value), levels))


def _convert(source: MapBuffer, out: Levels | None) -> NativeCall:
    params = CConvert(
        channels=source.pixels.shape[1], to=CLevels.of(out), **_input(source), **{"from": CLevels.of(source.levels)}
    )
    return NativeCall(kind=Int8KernelKind.CONVERT, params=params, kept=(source,))


def _by_tap(rounded: torch.Tensor) -> torch.Tensor:
    """Reorder depthwise weights, int8 [channels, 1, kernel_y, kernel_x], to int32 [taps, channels]."""
    return rounded.flatten(1).t().to(torch.int32).contiguous()


def _input(source: MapBuffer) -> dict[str, int]:
    return {"in_pitch": source.pixels.stride(0), "in": source.pixels.data_ptr()}
