# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Triton kernels for convolutions of listed pixels, as implicit matrix products: inputs are read where they lie."""

# What Triton compiles is not plain Python, so there are no type annotations.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from cacheinf_ros.engine.gpu.activation_functions import activate_tile
from cacheinf_ros.engine.gpu.listed_pixels import (
    Tile,
    first_read,
    is_inside,
    listed_block,
    listed_tile,
    load_floats,
    load_rows,
    read_by_tap,
    store_rows,
    tap_offset,
)


@triton.jit
def store_sums(
    sums, bias, residual, residual_pitch, slope, out, out_pitch, tile,
    RESIDUAL: tl.constexpr, ACTIVATION: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr,
    COMPACT: tl.constexpr,
):  # fmt: skip
    """Add the bias and the residual to a convolution's sums, apply the activation, and write the result."""
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
def _sums_of_few_channels(
    source, source_pitch, weight, pixel, live, group, column, is_column,
    WINDOW: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    FACTORS: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Compute the sums [PIXELS, COLUMNS], with taps and channels together as depth, so that no tile is mostly empty."""
    TOGETHER: tl.constexpr = WINDOW.kernel[0] * WINDOW.kernel[1] * INPUTS
    sums = tl.zeros((PIXELS, COLUMNS), tl.float32)
    for first in range(0, TOGETHER, DEPTH):
        depth = first + tl.arange(0, DEPTH)
        is_depth = depth < TOGETHER
        read, inside = read_by_tap(pixel[:, None], (depth // INPUTS)[None, :], WINDOW)
        inside &= live[:, None] & is_depth[None, :]
        address = source + read * source_pitch + (group * INPUTS + depth % INPUTS)[None, :]
        near = tl.load(address, mask=inside, other=0.0)
        factors = tl.load(
            weight + (group * TOGETHER + depth)[:, None] * OUTPUTS + column[None, :],
            mask=is_depth[:, None] & is_column[None, :], other=0.0,
        )  # fmt: skip
        sums = tl.dot(near.to(FACTORS), factors, sums, input_precision="tf32x3")
    return sums


@triton.jit
def _sums_by_tap(
    source, source_pitch, weight, pixel, live, group, column, is_column,
    WINDOW: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    FACTORS: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Compute the sums [PIXELS, COLUMNS] tap by tap: where a pixel reads is found once for all of a tap's channels.

    Taps and channels are one loop, as Triton prefetches tiles only in the innermost loop, which would be short.
    """
    TAPS: tl.constexpr = WINDOW.kernel[0] * WINDOW.kernel[1]
    BLOCKS: tl.constexpr = (INPUTS + DEPTH - 1) // DEPTH  # of a tap's channels
    y, x, corner = first_read(pixel, WINDOW)
    corner = corner.to(tl.int64) * source_pitch + group * INPUTS
    sums = tl.zeros((PIXELS, COLUMNS), tl.float32)
    for step in range(TAPS * BLOCKS):
        tap = 0 if TAPS == 1 else step // BLOCKS
        down, across = tap_offset(tap, WINDOW)
        channel = (step - tap * BLOCKS) * DEPTH + tl.arange(0, DEPTH)
        is_near = (live & is_inside(y + down, x + across, WINDOW))[:, None]
        is_factor = is_column[None, :]
        if INPUTS % DEPTH != 0:
            is_near, is_factor = is_near & (channel < INPUTS)[None, :], is_factor & (channel < INPUTS)[:, None]
        further = (down * WINDOW.in_size[1] + across) * source_pitch
        near = tl.load(source + (corner + further)[:, None] + channel[None, :], mask=is_near, other=0.0)
        row = (group * TAPS + tap) * INPUTS + channel
        factors = tl.load(weight + row[:, None] * OUTPUTS + column[None, :], mask=is_factor, other=0.0)
        sums = tl.dot(near.to(FACTORS), factors, sums, input_precision="tf32x3")
    return sums


@triton.jit
def convolve(
    source, source_pitch, weight, bias, residual, residual_pitch, slope, out, out_pitch, listed, count,
    WINDOW: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr,
    FACTORS: tl.constexpr, BY_TAP: tl.constexpr, COMPACT: tl.constexpr,
    PIXELS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Compute ``PIXELS`` listed pixels of ``COLUMNS`` output channels of a group at a time; sums are float32.

    Where there are more blocks of pixels than programs, programs take them in turn: starting a program for each block
    of the longest possible list takes time, and most would find nothing to do.

    Args:
        weight: [groups, taps, INPUTS, OUTPUTS], with a group's input and output channels, in the type ``FACTORS``.
        RESIDUAL: "" where there is none, or when it is added: "before" the activation or "after" it.
        FACTORS: the type that values are rounded to before they are multiplied, if the map has another one: float32,
            which Tensor Cores multiply in three parts ("tf32x3"), float16 or bfloat16.
        BY_TAP: whether there are enough input channels to multiply each tap's on their own.
        DEPTH: how many values of each pixel are multiplied at a time.
    """
    number = tl.load(count)
    group = tl.program_id(2)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < OUTPUTS
    for block in range(tl.program_id(0), tl.cdiv(number, PIXELS), tl.num_programs(0)):
        position, pixel, live = listed_block(listed, number, block, PIXELS)
        if BY_TAP:
            sums = _sums_by_tap(
                source, source_pitch, weight, pixel, live, group, column, is_column,
                WINDOW, INPUTS, OUTPUTS, FACTORS, PIXELS, COLUMNS, DEPTH,
            )  # fmt: skip
        else:
            sums = _sums_of_few_channels(
                source, source_pitch, weight, pixel, live, group, column, is_column,
                WINDOW, INPUTS, OUTPUTS, FACTORS, PIXELS, COLUMNS, DEPTH,
            )  # fmt: skip
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
    """Compute ``PIXELS`` listed pixels of ``COLUMNS`` channels, one filter for each; ``weight``: [taps, CHANNELS]."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    value = tl.zeros((PIXELS, COLUMNS), tl.float32)
    for tap in tl.range(0, WINDOW.kernel[0] * WINDOW.kernel[1], loop_unroll_factor=min(WINDOW.kernel[1], 8)):
        read, inside = read_by_tap(tile.pixel, tap, WINDOW)
        address = source + read[:, None] * source_pitch + tile.channel[None, :]
        near = load_floats(address, (inside & tile.live)[:, None] & tile.is_channel[None, :], 0.0)
        value += near * tl.load(weight + tap * CHANNELS + tile.channel, mask=tile.is_channel, other=0.0)[None, :]
    store_sums(
        value, bias, residual, residual_pitch, slope, out, out_pitch, tile,
        RESIDUAL, ACTIVATION, LOW, HIGH, ALPHA, COMPACT,
    )  # fmt: skip
