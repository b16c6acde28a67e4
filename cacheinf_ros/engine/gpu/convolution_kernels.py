# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Convolutions of listed pixels as implicit matrix products: inputs are gathered where they lie."""

# What Triton compiles is not Python: types are left out.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from cacheinf_ros.engine.gpu.activation_functions import activate_channels
from cacheinf_ros.engine.gpu.listed_pixels import listed_block, load_floats, store_rows
from cacheinf_ros.engine.gpu.window_kernels import read_by_tap


@triton.jit
def store_sums(
    sums, bias, residual, residual_pitch, slope, out, out_pitch, position, pixel, live, channel, is_channel,
    RESIDUAL: tl.constexpr, ACTIVATION: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr,
    COMPACT: tl.constexpr,
):  # fmt: skip
    """Write what a convolution makes of its sums: with the bias, the residual and the activation."""
    mask = live[:, None] & is_channel[None, :]
    value = sums + tl.load(bias + channel, mask=is_channel, other=0.0)[None, :]
    if RESIDUAL != "":
        added = load_floats(residual + pixel[:, None] * residual_pitch + channel[None, :], mask, 0.0)
    if RESIDUAL == "before":
        value += added
    value = activate_channels(value, slope, channel, is_channel, ACTIVATION, LOW, HIGH, ALPHA)
    if RESIDUAL == "after":
        value += added
    store_rows(out, out_pitch, position, pixel, channel, value, mask, COMPACT)


@triton.jit
def convolve(
    source, source_pitch, weight, bias, residual, residual_pitch, slope, out, out_pitch, listed, count,
    IN_HEIGHT: tl.constexpr, IN_WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    KERNEL_Y: tl.constexpr, KERNEL_X: tl.constexpr, STRIDE_Y: tl.constexpr, STRIDE_X: tl.constexpr,
    DILATION_Y: tl.constexpr, DILATION_X: tl.constexpr, PADDING_Y: tl.constexpr, PADDING_X: tl.constexpr,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr,
    FACTORS: tl.constexpr, COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Compute ``PIXELS`` listed pixels of ``COLUMNS`` output channels of a group; sums are float32.

    Args:
        weight: [groups, taps, INPUTS, OUTPUTS], of a group's input and output channels, in the type of the factors.
        RESIDUAL: "", or when it is added: "before" the activation or "after".
        FACTORS: the type that values are rounded to before they are multiplied, if the map does not keep them in it:
            float32, of which Tensor Cores take three parts ("tf32x3"), float16 or bfloat16.
    """
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    position, pixel, live = listed_block(listed, number, PIXELS)
    group = tl.program_id(2)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < OUTPUTS
    sums = tl.zeros((PIXELS, COLUMNS), tl.float32)
    # few input channels: the depth of the product goes over taps and channels together, so that no tile is mostly empty
    TOGETHER: tl.constexpr = KERNEL_Y * KERNEL_X * INPUTS if INPUTS < DEPTH else INPUTS
    TAPS: tl.constexpr = 1 if INPUTS < DEPTH else KERNEL_Y * KERNEL_X
    for tap in range(TAPS):
        for first in range(0, TOGETHER, DEPTH):
            depth = tap * INPUTS + first + tl.arange(0, DEPTH)  # over taps and channels
            is_depth = (first + tl.arange(0, DEPTH)) < TOGETHER
            at, channel = depth // INPUTS, depth % INPUTS
            read, inside = read_by_tap(
                pixel[:, None], at[None, :],
                IN_HEIGHT, IN_WIDTH, OUT_HEIGHT, OUT_WIDTH, KERNEL_X, STRIDE_Y, STRIDE_X,
                DILATION_Y, DILATION_X, PADDING_Y, PADDING_X,
            )  # fmt: skip
            inside &= live[:, None] & is_depth[None, :]
            address = source + read * source_pitch + (group * INPUTS + channel)[None, :]
            near = tl.load(address, mask=inside, other=0.0)
            row = group * (KERNEL_Y * KERNEL_X * INPUTS) + depth
            factors = tl.load(
                weight + row[:, None] * OUTPUTS + column[None, :],
                mask=is_depth[:, None] & is_column[None, :], other=0.0,
            )  # fmt: skip
            sums = tl.dot(near.to(FACTORS), factors, sums, input_precision="tf32x3")
    channel = group * OUTPUTS + column
    store_sums(
        sums, bias, residual, residual_pitch, slope, out, out_pitch, position, pixel, live, channel, is_column,
        RESIDUAL, ACTIVATION, LOW, HIGH, ALPHA, COMPACT,
    )  # fmt: skip


@triton.jit
def convolve_depthwise(
    source, source_pitch, weight, bias, residual, residual_pitch, slope, out, out_pitch, listed, count,
    IN_HEIGHT: tl.constexpr, IN_WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    KERNEL_Y: tl.constexpr, KERNEL_X: tl.constexpr, STRIDE_Y: tl.constexpr, STRIDE_X: tl.constexpr,
    DILATION_Y: tl.constexpr, DILATION_X: tl.constexpr, PADDING_Y: tl.constexpr, PADDING_X: tl.constexpr,
    CHANNELS: tl.constexpr, RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr,
    COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute ``PIXELS`` listed pixels of ``COLUMNS`` channels, each of which has one filter, [taps, CHANNELS]."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    position, pixel, live = listed_block(listed, number, PIXELS)
    channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_channel = channel < CHANNELS
    value = tl.zeros((PIXELS, COLUMNS), tl.float32)
    for tap in range(KERNEL_Y * KERNEL_X):
        read, inside = read_by_tap(
            pixel, tap,
            IN_HEIGHT, IN_WIDTH, OUT_HEIGHT, OUT_WIDTH, KERNEL_X, STRIDE_Y, STRIDE_X,
            DILATION_Y, DILATION_X, PADDING_Y, PADDING_X,
        )  # fmt: skip
        address = source + read[:, None] * source_pitch + channel[None, :]
        near = load_floats(address, (inside & live)[:, None] & is_channel[None, :], 0.0)
        value += near * tl.load(weight + tap * CHANNELS + channel, mask=is_channel, other=0.0)[None, :]
    store_sums(
        value, bias, residual, residual_pitch, slope, out, out_pitch, position, pixel, live, channel, is_channel,
        RESIDUAL, ACTIVATION, LOW, HIGH, ALPHA, COMPACT,
    )  # fmt: skip
