# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prepares the launches of Triton kernels for operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton.language as tl

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.gpu import convolution_kernels, pixel_kernels
from cacheinf_ros.engine.gpu.pixel_launch import (
    SMALLEST_SIDE,
    PixelLaunch,
    Tiles,
    columns_of,
    power_of_two,
    product_depth,
)
from cacheinf_ros.engine.kernels.gathering import averaged_pixels
from cacheinf_ros.graph import Activation, ActivationKind, ir

_VALUES_OF_A_ROW_BLOCK = 8192  # of one program, in norms and softmax, which hold all channels of a pixel
_IN_KERNELS = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


class TritonKernels:
    """Prepares operators; the launches that it returns read the given maps and weights in place."""

    def __init__(self, device: torch.device, tiles: Tiles, factors: torch.dtype = torch.float32) -> None:
        """Prepare nothing yet.

        Args:
            device: where the maps are.
            tiles: the largest tiles of a program.
            factors: the dtype that convolutions round values to before they multiply; sums are always float32.
        """
        self._device = device
        self._tiles = tiles
        self._factors = factors
        on_gpu = device.type == "cuda"
        multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else 1
        self._most_programs = tiles.most_per_multiprocessor * multiprocessors

    def prepare(
        self, op: ir.Operator, sources: Sequence[MapBuffer], channels: int, cameras: int = 1
    ) -> PixelLaunch | None:
        """Return the launch for a local operator; None: there is no kernel for it.

        Args:
            op: the operator.
            sources: the maps of its inputs, in their order.
            channels: the channels of the output.
            cameras: how many cameras' maps lie one below another in each source.
        """
        match op:
            case ir.Conv():
                return self._depthwise(op, sources) if op.is_depthwise else self._conv(op, sources)
            case ir.Pool():
                divisor = averaged_pixels(op.window, op.count_padding).to(self._device)
                constants = {"WINDOW": op.window, "AVERAGE": op.average}
                return self._by_channels(pixel_kernels.pool, [*_map(sources[0]), divisor], constants, channels)
            case ir.Elementwise():
                return self._elementwise(op, sources, channels)
            case ir.ChannelNorm():
                arguments = [*_map(sources[0]), self._on_device(op.weight), self._on_device(op.bias), op.epsilon]
                return self._by_rows(pixel_kernels.normalise_channels, arguments, {}, channels)
            case ir.ChannelSoftmax():
                constants = {"LOG": op.log}
                return self._by_rows(pixel_kernels.softmax_channels, _map(sources[0]), constants, channels)
            case ir.Resample():
                return self._resample(op, sources[0], channels, cameras)
            case ir.PixelShuffle():
                constants = {"IN_WIDTH": sources[0].size[1], "FACTOR": op.factor, "PHASE_MAJOR": op.phase_major}
                return self._by_channels(pixel_kernels.shuffle_pixels, _map(sources[0]), constants, channels)
            case ir.Select():
                index = torch.tensor(op.channels, dtype=torch.int32, device=self._device)
                return self._by_channels(pixel_kernels.select_channels, [*_map(sources[0]), index], {}, channels)
            case ir.GlobalMean():
                return self._mean(sources[0], channels, cameras)
        return None

    def _conv(self, op: ir.Conv, sources: Sequence[MapBuffer]) -> PixelLaunch:
        outputs, inputs = op.weight.shape[0] // op.groups, op.weight.shape[1]
        weight = op.weight.flatten(2).unflatten(0, (op.groups, outputs)).permute(0, 3, 2, 1).to(self._factors)
        columns = columns_of(outputs, self._tiles)
        blocks = (-(-outputs // columns), op.groups)
        by_tap, depth = product_depth(inputs, math.prod(op.window.kernel), self._tiles, self._factors.itemsize)
        constants = _activation(op.activation) | {
            "WINDOW": op.window, "INPUTS": inputs, "OUTPUTS": outputs, "RESIDUAL": _residual(op),
            "FACTORS": _IN_KERNELS[self._factors], "BY_TAP": by_tap, "COLUMNS": columns, "DEPTH": depth,
            "num_warps": self._tiles.warps, "num_stages": self._tiles.stages,
        }  # fmt: skip
        return PixelLaunch(
            kernel=convolution_kernels.convolve,
            arguments=self._conv_arguments(op, sources, weight),
            constants=constants,
            pixels=self._tiles.pixels,
            blocks=blocks,
            channels=op.weight.shape[0],
            most_programs=max(1, self._most_programs // math.prod(blocks)),
        )

    def _depthwise(self, op: ir.Conv, sources: Sequence[MapBuffer]) -> PixelLaunch:
        constants = _activation(op.activation) | {"WINDOW": op.window, "RESIDUAL": _residual(op)}
        arguments = self._conv_arguments(op, sources, op.weight.flatten(1).t())
        return self._by_channels(convolution_kernels.convolve_depthwise, arguments, constants, op.weight.shape[0])

    def _conv_arguments(self, op: ir.Conv, sources: Sequence[MapBuffer], weight: torch.Tensor) -> list[Any]:
        bias = self._on_device(op.bias)
        residual = _map(sources[1]) if len(sources) > 1 else [bias, 0]  # a placeholder that no kernel reads
        return [*_map(sources[0]), self._on_device(weight), bias, *residual, self._slope(op.activation, bias)]

    def _elementwise(self, op: ir.Elementwise, sources: Sequence[MapBuffer], channels: int) -> PixelLaunch:
        a, b = _map(sources[0]), _map(sources[-1])  # one source twice: x * x
        pixels = max(len(source.pixels) for source in sources)
        scale, shift = (a[0] if vector is None else self._on_device(vector) for vector in (op.scale, op.shift))
        constants = _activation(op.activation) | {
            "COMBINE": "" if op.combine is None else op.combine.value,
            "HAS_SCALE": op.scale is not None,
            "HAS_SHIFT": op.shift is not None,
            "A_SERVES": pixels // len(sources[0].pixels),
            "B_SERVES": pixels // len(sources[-1].pixels),
        }
        arguments = [*a, *b, scale, shift, self._slope(op.activation, a[0])]
        return self._by_channels(pixel_kernels.combine, arguments, constants, channels)

    def _resample(self, op: ir.Resample, source: MapBuffer, channels: int, cameras: int) -> PixelLaunch:
        rows = (
            below_one_another(op.rows.index.int(), source.size[0] // cameras, cameras),
            op.rows.weight.repeat(cameras, 1),
        )
        tables = [self._on_device(t) for t in (*rows, op.columns.index.int(), op.columns.weight)]
        constants = {
            "IN_WIDTH": source.size[1], "OUT_WIDTH": op.columns.out_size,
            "TAPS_Y": op.rows.index.shape[1], "TAPS_X": op.columns.index.shape[1],
        }  # fmt: skip
        return self._by_channels(pixel_kernels.resample, [*_map(source), *tables, op.fill], constants, channels)

    def _mean(self, source: MapBuffer, channels: int, cameras: int) -> PixelLaunch:
        columns = columns_of(channels, self._tiles)
        return PixelLaunch(
            kernel=pixel_kernels.average_all,
            arguments=_map(source),
            constants={
                "IN_PIXELS": len(source.pixels) // cameras, "CHANNELS": channels, "LISTED": power_of_two(cameras),
                "PIXELS": self._tiles.pixels, "COLUMNS": columns,
            },
            pixels=0,
            blocks=(-(-channels // columns), cameras),
            channels=channels,
        )  # fmt: skip

    def _by_channels(
        self, kernel: Any, arguments: Sequence[Any], constants: dict[str, Any], channels: int
    ) -> PixelLaunch:
        """Return the launch of a kernel whose programs each compute some channels of some pixels."""
        columns = columns_of(channels, self._tiles)
        return PixelLaunch(
            kernel=kernel,
            arguments=arguments,
            constants=constants | {"CHANNELS": channels, "COLUMNS": columns},
            pixels=self._tiles.pixels,
            blocks=(-(-channels // columns),),
            channels=channels,
        )

    def _by_rows(self, kernel: Any, arguments: Sequence[Any], constants: dict[str, Any], channels: int) -> PixelLaunch:
        """Return the launch of a kernel whose programs each compute all channels of some pixels."""
        columns = power_of_two(channels, least=SMALLEST_SIDE)
        return PixelLaunch(
            kernel=kernel,
            arguments=arguments,
            constants=constants | {"CHANNELS": channels, "COLUMNS": columns},
            pixels=min(self._tiles.pixels, max(1, _VALUES_OF_A_ROW_BLOCK // columns)),
            blocks=(),
            channels=channels,
        )

    def _slope(self, activation: Activation, otherwise: torch.Tensor) -> torch.Tensor:
        return otherwise if activation.slope is None else self._on_device(activation.slope)

    def _on_device(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self._device).contiguous()


def copying(values: torch.Tensor, index: torch.Tensor) -> PixelLaunch:
    """Return a launch that copies listed rows of a tensor.

    Args:
        values: [pixels, channels].
        index: int32 [channels] on the device: 0, 1, 2, ...
    """
    channels = values.shape[1]
    columns = columns_of(channels, Tiles())
    return PixelLaunch(
        kernel=pixel_kernels.select_channels,
        arguments=[values, values.stride(0), index],
        constants={"CHANNELS": channels, "COLUMNS": columns},
        pixels=Tiles().pixels,
        blocks=(-(-channels // columns),),
        channels=channels,
    )


def below_one_another(rows: torch.Tensor, in_height: int, cameras: int) -> torch.Tensor:
    """Extend a table of the rows that each output row reads to several cameras, whose maps lie one below another.

    Args:
        rows: int32 [outputs, taps] for one camera; negative entries are beside the image, and are kept as they are.
        in_height: the rows of one camera's input.
        cameras: the number of cameras.
    """
    return torch.cat([torch.where(rows < 0, rows, rows + camera * in_height) for camera in range(cameras)])


def _map(source: MapBuffer) -> list[Any]:
    """Return a map's values and its pitch."""
    return [source.pixels, source.pixels.stride(0)]


def _residual(op: ir.Conv) -> str:
    if len(op.inputs) == 1:
        return ""
    return "after" if op.residual_last else "before"


def _activation(activation: Activation) -> dict[str, Any]:
    is_clamp = activation.kind is ActivationKind.CLAMP
    low, high = (
        limit if is_clamp and abs(limit) != float("inf") else None for limit in (activation.low, activation.high)
    )
    return {"ACTIVATION": activation.kind.value, "LOW": low, "HIGH": high, "ALPHA": activation.alpha}
