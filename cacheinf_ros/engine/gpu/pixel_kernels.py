# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Triton kernels for all but convolutions: element-wise operators, pooling, norms, resampling, reordering, means."""

# What Triton compiles is not plain Python, so there are no type annotations.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from cacheinf_ros.engine.gpu.activation_functions import activate_tile
from cacheinf_ros.engine.gpu.listed_pixels import listed_tile, load_floats, load_rows, read_by_tap, store_rows


@triton.jit
def combine(
    a, a_pitch, b, b_pitch, scale, shift, slope, out, out_pitch, listed, count,
    CHANNELS: tl.constexpr, COMBINE: tl.constexpr, HAS_SCALE: tl.constexpr, HAS_SHIFT: tl.constexpr,
    ACTIVATION: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr,
    A_SERVES: tl.constexpr, B_SERVES: tl.constexpr,
    COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute :class:`Elementwise`.

    Args:
        A_SERVES, B_SERVES: how many output pixels read the same pixel of a source: 1, or all pixels of an image.
    """
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    value = load_floats(a + (tile.pixel // A_SERVES)[:, None] * a_pitch + tile.channel[None, :], tile.mask, 0.0)
    if COMBINE != "":
        other = load_floats(b + (tile.pixel // B_SERVES)[:, None] * b_pitch + tile.channel[None, :], tile.mask, 1.0)
        if COMBINE == "add":
            value = value + other
        elif COMBINE == "sub":
            value = value - other
        elif COMBINE == "mul":
            value = value * other
        elif COMBINE == "div":
            value = value / other
        elif COMBINE == "maximum":
            value = tl.maximum(value, other, propagate_nan=tl.PropagateNan.ALL)
        else:
            value = tl.minimum(value, other, propagate_nan=tl.PropagateNan.ALL)
    if HAS_SCALE:
        value *= tl.load(scale + tile.channel, mask=tile.is_channel, other=0.0)[None, :]
    if HAS_SHIFT:
        value += tl.load(shift + tile.channel, mask=tile.is_channel, other=0.0)[None, :]
    value = activate_tile(value, slope, tile, ACTIVATION, LOW, HIGH, ALPHA)
    store_rows(out, out_pitch, tile, value, COMPACT)


@triton.jit
def pool(
    source, source_pitch, divisor, out, out_pitch, listed, count,
    WINDOW: tl.constexpr, CHANNELS: tl.constexpr, AVERAGE: tl.constexpr,
    COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute :class:`Pool`; ``divisor``: float32 [outputs], how many pixels an average divides by."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    OUTSIDE: tl.constexpr = 0.0 if AVERAGE else float("-inf")
    value = tl.full((PIXELS, COLUMNS), OUTSIDE, tl.float32)
    for tap in tl.range(0, WINDOW.kernel[0] * WINDOW.kernel[1], loop_unroll_factor=min(WINDOW.kernel[1], 8)):
        read, inside = read_by_tap(tile.pixel, tap, WINDOW)
        address = source + read[:, None] * source_pitch + tile.channel[None, :]
        near = load_floats(address, (inside & tile.live)[:, None] & tile.is_channel[None, :], OUTSIDE)
        value = value + near if AVERAGE else tl.maximum(value, near, propagate_nan=tl.PropagateNan.ALL)
    if AVERAGE:
        own = tile.pixel % (WINDOW.out_size[0] * WINDOW.out_size[1])  # the pixel within its camera's map
        value /= tl.load(divisor + own, mask=tile.live, other=1.0)[:, None]
    store_rows(out, out_pitch, tile, value, COMPACT)


@triton.jit
def normalise_channels(
    source, source_pitch, weight, bias, epsilon, out, out_pitch, listed, count,
    CHANNELS: tl.constexpr, COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute :class:`ChannelNorm`; ``COLUMNS``: at least all channels."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    value = load_rows(source, source_pitch, tile, 0.0)
    centred = tl.where(tile.mask, value - (tl.sum(value, axis=1) / CHANNELS)[:, None], 0.0)
    spread = tl.sqrt(tl.sum(centred * centred, axis=1) / CHANNELS + epsilon)
    factor = tl.load(weight + tile.channel, mask=tile.is_channel, other=0.0)[None, :]
    value = centred / spread[:, None] * factor + tl.load(bias + tile.channel, mask=tile.is_channel, other=0.0)[None, :]
    store_rows(out, out_pitch, tile, value, COMPACT)


@triton.jit
def softmax_channels(
    source, source_pitch, out, out_pitch, listed, count,
    CHANNELS: tl.constexpr, LOG: tl.constexpr,
    COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute :class:`ChannelSoftmax`; ``COLUMNS``: at least all channels."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    value = load_rows(source, source_pitch, tile, float("-inf"))
    value = tl.where(tile.live[:, None], value, 0.0)  # so that rows beyond the list do not become NaN
    value -= tl.max(value, axis=1)[:, None]
    total = tl.sum(tl.exp(value), axis=1)[:, None]
    value = value - tl.log(total) if LOG else tl.exp(value) / total
    store_rows(out, out_pitch, tile, value, COMPACT)


@triton.jit
def resample(
    source, source_pitch, rows, row_weights, columns, column_weights, fill, out, out_pitch, listed, count,
    IN_WIDTH: tl.constexpr, OUT_WIDTH: tl.constexpr, TAPS_Y: tl.constexpr, TAPS_X: tl.constexpr,
    CHANNELS: tl.constexpr, COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute :class:`Resample`; the tables of rows and columns are [outputs along the axis, taps]."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    value = tl.zeros((PIXELS, COLUMNS), tl.float32)
    for tap in range(TAPS_Y * TAPS_X):
        along = (tile.pixel // OUT_WIDTH) * TAPS_Y + tap // TAPS_X
        across = (tile.pixel % OUT_WIDTH) * TAPS_X + tap % TAPS_X
        y, x = tl.load(rows + along, mask=tile.live, other=-1), tl.load(columns + across, mask=tile.live, other=-1)
        inside = (y >= 0) & (x >= 0)
        factor = tl.load(row_weights + along, mask=tile.live, other=0.0)
        factor *= tl.load(column_weights + across, mask=tile.live, other=0.0)
        address = source + (y.to(tl.int64) * IN_WIDTH + x)[:, None] * source_pitch + tile.channel[None, :]
        near = load_floats(address, inside[:, None] & tile.is_channel[None, :], 0.0)
        value += factor[:, None] * near
        if TAPS_Y * TAPS_X == 1:
            value = tl.where(inside[:, None], value, fill)
    store_rows(out, out_pitch, tile, value, COMPACT)


@triton.jit
def shuffle_pixels(
    source, source_pitch, out, out_pitch, listed, count,
    IN_WIDTH: tl.constexpr, FACTOR: tl.constexpr, PHASE_MAJOR: tl.constexpr, CHANNELS: tl.constexpr,
    COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute :class:`PixelShuffle`."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    y, x = tile.pixel // (IN_WIDTH * FACTOR), tile.pixel % (IN_WIDTH * FACTOR)
    phase = (y % FACTOR * FACTOR + x % FACTOR)[:, None]
    channel = tile.channel[None, :]
    read = phase * CHANNELS + channel if PHASE_MAJOR else channel * (FACTOR * FACTOR) + phase
    near = (y // FACTOR * IN_WIDTH + x // FACTOR)[:, None]
    value = tl.load(source + near * source_pitch + read, mask=tile.mask, other=0.0)
    store_rows(out, out_pitch, tile, value, COMPACT)


@triton.jit
def select_channels(
    source, source_pitch, channels, out, out_pitch, listed, count,
    CHANNELS: tl.constexpr, COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute :class:`Select`; ``channels``: int32 [CHANNELS], the channels of the source to take."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    tile = listed_tile(listed, number, CHANNELS, PIXELS, COLUMNS)
    read = tl.load(channels + tile.channel, mask=tile.is_channel, other=0)
    value = tl.load(source + tile.pixel[:, None] * source_pitch + read[None, :], mask=tile.mask, other=0.0)
    store_rows(out, out_pitch, tile, value, COMPACT)


@triton.jit
def average_all(
    source, source_pitch, out, out_pitch, listed, count,
    IN_PIXELS: tl.constexpr, CHANNELS: tl.constexpr, LISTED: tl.constexpr,
    COMPACT: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute :class:`GlobalMean`, whose output has one pixel for each camera, for the cameras whose pixel is listed.

    Args:
        IN_PIXELS: input pixels of one camera.
        LISTED: a power of two, not below the number of cameras.
    """
    camera = tl.program_id(1)
    position = tl.arange(0, LISTED)
    is_own = tl.load(listed + position, mask=position < tl.load(count), other=-1) == camera
    if tl.sum(tl.where(is_own, 1, 0), axis=0) == 0:
        return
    row = tl.sum(tl.where(is_own, position, 0), axis=0) if COMPACT else camera
    channel = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    is_channel = channel < CHANNELS
    sums = tl.zeros((COLUMNS,), tl.float32)
    for first in tl.range(0, IN_PIXELS, PIXELS, loop_unroll_factor=4):
        pixel = (first + tl.arange(0, PIXELS)).to(tl.int64)
        mask = (pixel < IN_PIXELS)[:, None] & is_channel[None, :]
        value = load_floats(source + (camera * IN_PIXELS + pixel)[:, None] * source_pitch + channel[None, :], mask, 0.0)
        sums += tl.sum(value, axis=0)
    tl.store(out + row * out_pitch + channel, sums / IN_PIXELS, mask=is_channel)
