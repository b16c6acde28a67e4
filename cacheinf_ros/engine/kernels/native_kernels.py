# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prepares the kernels on listed pixels that are compiled from ``native/``."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels.abi import (
    BFloat16KernelKind,
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
_PANEL = 32  # output channels of packed weights that lie together: kPanel in native/isa/conv_runs.h
_QUAD = 4  # bytes of weights that are multiplied at once
_FEW_CHANNELS = 32  # with so few output channels, gathering the inputs first does not pay
_ALTERNATIVES = {KernelKind.CONV: KernelKind.CONV_IN_PLACE, KernelKind.CONV_IN_PLACE: KernelKind.CONV}
_ON_BFLOAT16 = {
    KernelKind.DEPTHWISE: BFloat16KernelKind.DEPTHWISE_BFLOAT16,
    KernelKind.POOL: BFloat16KernelKind.POOL_BFLOAT16,
    KernelKind.ELEMENTWISE: BFloat16KernelKind.ELEMENTWISE_BFLOAT16,
    KernelKind.CHANNEL_NORM: BFloat16KernelKind.CHANNEL_NORM_BFLOAT16,
    KernelKind.RESAMPLE: BFloat16KernelKind.RESAMPLE_BFLOAT16,
    KernelKind.PIXEL_SHUFFLE: BFloat16KernelKind.PIXEL_SHUFFLE_BFLOAT16,
    KernelKind.SELECT: BFloat16KernelKind.SELECT_BFLOAT16,
    KernelKind.GLOBAL_MEAN: BFloat16KernelKind.GLOBAL_MEAN_BFLOAT16,
}


class NativeKernels:
    """Prepares operators for the compiled library."""

    def __init__(self, library: ctypes.CDLL, shared: SharedValues, *, tiles: bool) -> None:
        """Prepare nothing yet.

        Args:
            library: the compiled kernels.
            shared: holds packed weights, for all engines that are given the same object.
            tiles: whether matrix tiles may be used.
        """
        self._library = library
        self._shared = shared
        self._may_use_tiles = tiles

    @property
    def uses_tiles(self) -> bool:
        """Whether convolutions of bfloat16 and of levels are computed by matrix tiles (AMX).

        Permission is requested from Linux when this is first read, as only programs that use tiles should need the
        larger signal frames that they bring.
        """
        return self._may_use_tiles and bool(self._library.ci_has_tiles())

    def prepare(
        self, op: ir.Operator, sources: Sequence[MapBuffer], channels: int, floats: torch.dtype = torch.float32
    ) -> NativeCall | None:
        """Return the call of a local operator, or None where only torch can do it.

        Args:
            op: the operator.
            sources: the maps of its inputs, in their order.
            channels: the channels of the output.
            floats: the dtype of the output, which is that of the inputs unless it is a convolution or a conversion.

        Raises:
            TypeError: no kernel reads and writes these dtypes.
        """
        call = self._call(op, sources, channels, floats)
        types = {*(source.pixels.dtype for source in sources), floats}
        if call is None or torch.bfloat16 not in types or not isinstance(call.kind, KernelKind):
            return call
        kind = _ON_BFLOAT16.get(call.kind)
        if kind is None or len(types) > 1:
            raise TypeError(f"{type(op).__name__} {op.name} is not computed on {', '.join(map(str, types))}")
        return replace(call, kind=kind)

    def _call(
        self, op: ir.Operator, sources: Sequence[MapBuffer], channels: int, floats: torch.dtype
    ) -> NativeCall | None:
        match op:
            case ir.Conv():
                return self._conv(op, sources, floats)
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
            case ir.Convert():
                return _convert(sources[0])
        return None

    def alternative(self, call: NativeCall) -> NativeCall | None:
        """Return another kernel that computes the same, or None; shapes, pixels and machine decide which is faster."""
        other = _ALTERNATIVES.get(call.kind) if isinstance(call.kind, KernelKind) else None
        return None if other is None else replace(call, kind=other)

    def _conv(self, op: ir.Conv, sources: Sequence[MapBuffer], floats: torch.dtype) -> NativeCall:
        source, residual = sources[0].pixels, sources[1].pixels if len(sources) > 1 else None
        kind = self._conv_kind(op, source.dtype)
        whole_lines = kind in BFloat16KernelKind and has_whole_lines(op, source)
        weight = self._shared.get(
            op.weight, (kind, op.groups, whole_lines), lambda: self._weight(op, kind, whole_lines=whole_lines)
        )
        bias = op.bias.contiguous()
        activation, slope = encoded_activation(op.activation)
        params = CConv(
            activation=activation,
            whole_lines=whole_lines,
            writes_floats=floats is torch.float32,
            **conv_fields(op, sources, weight.value, bias),
        )
        return NativeCall(kind=kind, params=params, kept=(source, residual, weight, bias, slope))

    def _conv_kind(self, op: ir.Conv, floats: torch.dtype) -> KernelKind | BFloat16KernelKind:
        """Return the kernel that is likely to be the fastest; measurements decide (see ``alternative``)."""
        if op.is_depthwise:
            return KernelKind.DEPTHWISE
        if floats is torch.bfloat16:
            if self.uses_tiles:
                return BFloat16KernelKind.CONV_BFLOAT16_TILES
            has_it = self._library.ci_has_bfloat16()
            return BFloat16KernelKind.CONV_BFLOAT16 if has_it else BFloat16KernelKind.CONV_BFLOAT16_WIDENED
        is_narrow = op.weight.shape[0] // op.groups <= _FEW_CHANNELS
        return KernelKind.CONV_IN_PLACE if is_narrow else KernelKind.CONV

    def _weight(self, op: ir.Conv, kind: KernelKind | BFloat16KernelKind, *, whole_lines: bool) -> torch.Tensor:
        """Return the weights in the order in which a kernel reads them."""
        if kind is KernelKind.DEPTHWISE:
            return _by_tap(op)
        if isinstance(kind, BFloat16KernelKind):
            return self.packed_runs(op.weight.to(torch.bfloat16), op.groups, whole_lines=whole_lines)
        return self._packed(op)

    def packed_runs(self, weight: torch.Tensor, groups: int, *, whole_lines: bool) -> torch.Tensor:
        """Pack weights of less than 32 bits as their kernel reads them, zero padded.

        See ``native/isa/conv_runs.h``, or ``conv_tiles.h`` where :attr:`uses_tiles`.

        Args:
            weight: [outputs, inputs per group, kernel_y, kernel_x].
            groups: the groups of the convolution.
            whole_lines: see :func:`has_whole_lines`; a run is then a line of the window, and otherwise a single tap.

        Returns:
            [1, groups * panels * runs * quads * 32 * values of 4 bytes].
        """
        taps_last = weight.unflatten(0, (groups, -1)).permute(0, 1, 3, 4, 2)  # [groups, outputs, y, x, inputs]
        runs = taps_last.flatten(3, 4) if whole_lines else taps_last.flatten(2, 3)  # [groups, outputs, runs, values]
        together = _QUAD // weight.itemsize
        return _in_panels(self._in_steps(runs, together) if self.uses_tiles else runs, together)

    def _in_steps(self, runs: torch.Tensor, together: int) -> torch.Tensor:
        """Divide runs into equally long steps: [groups, outputs, runs, values] -> [..., runs * steps, values].

        The last step ends with the run, and may overlap the one before; weights in the overlap are zero in the last.
        """
        values = runs.shape[3]
        count = self._library.ci_tile_steps(values, together)
        size = -(-values // (count * together)) * together
        steps = []
        for start in range(0, count * size, size):
            first_read = max(0, min(start, values - size))
            new, behind = runs[..., start : first_read + size], max(0, size - values)
            steps.append(torch.nn.functional.pad(new, (size - behind - new.shape[3], behind)))
        return torch.stack(steps, 3).flatten(2, 3)

    def _packed(self, op: ir.Conv) -> torch.Tensor:
        outputs, inputs, height, width = op.weight.shape
        sizes = (op.groups, outputs // op.groups, inputs, height * width)
        packed = MapBuffer.allocate((1, 1), self._library.ci_packed_size(*sizes), _CPU).pixels
        weight = op.weight.contiguous()
        self._library.ci_pack_weight(weight.data_ptr(), packed.data_ptr(), *sizes)
        return packed


def has_whole_lines(op: ir.Conv, pixels: torch.Tensor) -> bool:
    """Tell whether the taps of each line of the window are contiguous in the map that a convolution reads."""
    return op.window.dilation[1] == 1 and op.groups == 1 and pixels.stride(0) == op.weight.shape[1]


def _in_panels(runs: torch.Tensor, together: int) -> torch.Tensor:
    """Pack [groups, outputs, runs, values] as [1, groups * panels * runs * quads * 32 * together], zero padded."""
    padding = (0, -runs.shape[3] % together, 0, 0, 0, -runs.shape[1] % _PANEL)
    padded = torch.nn.functional.pad(runs, padding)
    packed = padded.unflatten(1, (-1, _PANEL)).unflatten(4, (-1, together)).permute(0, 1, 3, 4, 2, 5)
    aligned = MapBuffer.allocate((1, 1), packed.numel() // together, _CPU).pixels.view(runs.dtype)
    return aligned.copy_(packed.reshape(1, -1))


def _by_tap(op: ir.Conv) -> torch.Tensor:
    """Reorder depthwise weights, [channels, 1, kernel_y, kernel_x], to [taps, channels]."""
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


def _convert(source: MapBuffer) -> NativeCall:
    kind = BFloat16KernelKind.WIDEN if source.pixels.dtype is torch.bfloat16 else BFloat16KernelKind.NARROW
    return NativeCall(kind=kind, params=CSelect(channels=source.pixels.shape[1], **_input(source)), kept=(source,))


def conv_fields(op: ir.Conv, sources: Sequence[MapBuffer], weight: torch.Tensor, bias: torch.Tensor) -> dict[str, Any]:
    """Return the fields that all structures of convolutions have, except the activation.

    Args:
        op: the convolution.
        sources: the maps of its inputs, in their order.
        weight: the weights as the kernel reads them.
        bias: the bias as the kernel reads it.
    """
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
    """Return the fields that all structures for a single input map have."""
    return {"in_pitch": source.pixels.stride(0), "in": source.pixels.data_ptr()}


def _broadcast_pitch(pixels: torch.Tensor) -> int:
    """Return a map's pitch, or 0 for a single pixel, which is combined with every pixel of the other input."""
    return 0 if len(pixels) == 1 else pixels.stride(0)


def _address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def encoded_activation(activation: Activation, unit: float = 1.0) -> tuple[CActivation, torch.Tensor | None]:
    """Return the structure for an activation, with bounds in these units, and the tensor that it points to, if any."""
    slope = None if activation.slope is None else activation.slope.contiguous()
    kind = activation_number(activation.kind)
    low, high, alpha = activation.low / unit, activation.high / unit, activation.alpha
    return CActivation(kind=kind, low=low, high=high, alpha=alpha, slope=_address(slope)), slope
