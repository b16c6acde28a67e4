# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Convolutions of listed pixels as implicit matrix products: inputs are gathered where they lie."""

# What Triton compiles is not Python: types are left out.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from cacheinf_ros.engine.gpu.activation_functions import activate_tile
from cacheinf_ros.engine.gpu.listed_pixels import (
    Tile,
    listed_block,
    listed_tile,
    load_floats,
    load_rows,
    read_by_tap,
    store_rows,
)


@triton.jit
def store_sums(
    sums, bias, residual, residual_pitch, slope, out, out_pitch, tile,
    RESIDUAL: tl.constexpr, ACTIVATION: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr,
    COMPACT: tl.constexpr,
):  # fmt: skip
    """Write what a convolution makes of its sums: with the bias, the residual and the activation."""
    value = sums + tl.load(bias + tile.channel, mask=tile.is_channel, other=0.0)[None, :]
    if RESIDUAL != "":
        added = load_rows(residual, residual_pitch, tile, 0.0)
    if RESIDUAL == "before":
        value += added
    value = activate_tile(value, slope, tile, ACTIVATION, LOW, HIGH, ALPHA)
    if RESIDUAL == "after":
        value += added
    store_rows(out, out_pitch, tile, value, COMPACT)


@triton.jit
def convolve(
    source, source_pitch, weight, bias, residual, residual_pitch, slope, out, out_pitch, listed, count,
    WINDOW: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, RESIDUAL: tl.constexpr,
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
    ALL_TAPS: tl.constexpr = WINDOW.kernel[0] * WINDOW.kernel[1]
    TOGETHER: tl.constexpr = ALL_TAPS * INPUTS if INPUTS < DEPTH else INPUTS
    TAPS: tl.constexpr = 1 if INPUTS < DEPTH else ALL_TAPS
    for tap in range(TAPS):
        for first in range(0, TOGETHER, DEPTH):
            depth = tap * INPUTS + first + tl.arange(0, DEPTH)  # over taps and channels
            is_depth = (first + tl.arange(0, DEPTH)) < TOGETHER
            at, channel = depth // INPUTS, depth % INPUTS
            read, inside = read_by_tap(pixel[:, None], at[None, :], WINDOW)
            inside &= live[:, None] & is_depth[None, :]
            address = source + read * source_pitch + (group * INPUTS + channel)[None, :]
            near = tl.load(address, mask=inside, other=0.0)
            row = group * (ALL_TAPS * INPUTS) + depth
            factors = tl.load(
                weight + row[:, None] * OUTPUTS + column[None, :],
                mask=is_depth[:, None] & is_column[None, :], other=0.0,
            )  # fmt: skip
            sums = tl.dot(near.to(FACTORS), factors, sums, input_precision="tf32x3")
    tile = Tile(position, pixel, live, group * OUTPUTS + column, is_column, live[:, None] & is_column[None, :])
    store_sums(
        sums, bias, residual, residual_pitch, slope, out, out_pitch, tile,
        RESIDUAL, ACTIVATION, LOW, HIGH, ALPHA, COMPACT,
    )  # fmt: skip


@triton.jit
def convolve_depthwise(
    source, source_pitch, weight, bias, residual, residual_pitch, slope, out, out_pitch, listed, count,
    WINDOW: tl.constexpr, CHANNELS: tl.constexpr, RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr,
    COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute ``PIXELS`` listed pixels of ``COLUMNS`` channels, each of which has one filter, [taps, CHANNELS]."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    value = tl.zeros((PIXELS, COLUMNS), tl.float32)
    for tap in range(WINDOW.kernel[0] * WINDOW.kernel[1]):
        read, inside = read_by_tap(tile.pixel, tap, WINDOW)
        address = source + read[:, None] * source_pitch + tile.channel[None, :]
        near = load_floats(address, (inside & tile.live)[:, None] & tile.is_channel[None, :], 0.0)
        value += near * tl.load(weight + tap * CHANNELS + tile.channel, mask=tile.is_channel, other=0.0)[None, :]
    store_sums(
        value, bias, residual, residual_pitch, slope, out, out_pitch, tile,
        RESIDUAL, ACTIVATION, LOW, HIGH, ALPHA, COMPACT,
    )  # fmt: skip
