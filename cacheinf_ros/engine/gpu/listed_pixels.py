# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What all Triton kernels on listed pixels share: which pixels a program computes, and how it reads and writes maps."""

# What Triton compiles is not plain Python, so there are no type annotations.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl


class Tile(NamedTuple):
    """The listed pixels and the channels that a program computes; each field is a Triton block.

    Attributes:
        position: int64 [pixels]: positions in the list.
        pixel: int64 [pixels]: the pixels at those positions.
        live: bool [pixels]: which positions are within the list.
        channel: int32 [columns]: the channels.
        is_channel: bool [columns]: which of the channels exist.
        mask: bool [pixels, columns]: where both the position and the channel exist.
    """

    position: Any
    pixel: Any
    live: Any
    channel: Any
    is_channel: Any
    mask: Any


@triton.jit
def listed_block(listed, number, block, PIXELS: tl.constexpr):
    """Return (positions in the list, the pixels there, which positions are within the list) for a block of the list."""
    position = block * PIXELS + tl.arange(0, PIXELS)
    live = position < number
    pixel = tl.load(listed + position, mask=live, other=0).to(tl.int64)
    return position.to(tl.int64), pixel, live


@triton.jit
def listed_tile(listed, number, CHANNELS: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the :class:`Tile` of a program, whose place in the grid says which block of the list and of the columns.

    A grid is as large as all pixels would need; programs beyond the end of the list find none and leave.
    """
    position, pixel, live = listed_block(listed, number, tl.program_id(0), PIXELS)
    channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_channel = channel < CHANNELS
    return Tile(position, pixel, live, channel, is_channel, live[:, None] & is_channel[None, :])


@triton.jit
def load_floats(address, mask, other):
    """Load values of a map as float32, whatever dtype the map has."""
    return tl.load(address, mask=mask, other=other).to(tl.float32)


@triton.jit
def load_rows(source, pitch, tile, other):
    """Load a tile of a map as float32 [pixels, columns], with ``other`` where the tile's mask is false."""
    return load_floats(source + tile.pixel[:, None] * pitch + tile.channel[None, :], tile.mask, other)


@triton.jit
def store_rows(out, out_pitch, tile, value, COMPACT: tl.constexpr):
    """Write a tile [pixels, columns]: at its pixels in a map, or with ``COMPACT`` at its positions in the list.

    Values are rounded to the dtype of the map.
    """
    row = tile.position if COMPACT else tile.pixel
    tl.store(out + row[:, None] * out_pitch + tile.channel[None, :], value, mask=tile.mask)


@triton.jit
def first_read(pixel, WINDOW: tl.constexpr):
    """Return the (row, column, input pixel) that output pixels read by the first tap of a :class:`Window`, int32.

    The row and the column may lie outside the image, and then the pixel is not one of it. Maps of several cameras lie
    one below another; the row is counted within the image of the pixel's own camera.
    """
    pixel = pixel.to(tl.int32)  # 64-bit divisions take several times as long
    row = pixel // WINDOW.out_size[1]
    y = row % WINDOW.out_size[0] * WINDOW.stride[0] - WINDOW.padding[0]
    x = pixel % WINDOW.out_size[1] * WINDOW.stride[1] - WINDOW.padding[1]
    return y, x, (row // WINDOW.out_size[0] * WINDOW.in_size[0] + y) * WINDOW.in_size[1] + x


@triton.jit
def tap_offset(tap, WINDOW: tl.constexpr):
    """Return the offset (rows, columns) of what a tap of a :class:`Window` reads from what the first tap reads."""
    return tap // WINDOW.kernel[1] * WINDOW.dilation[0], tap % WINDOW.kernel[1] * WINDOW.dilation[1]


@triton.jit
def is_inside(y, x, WINDOW: tl.constexpr):
    """Tell whether a row and a column lie inside the image that a :class:`Window` reads."""
    return (y >= 0) & (y < WINDOW.in_size[0]) & (x >= 0) & (x < WINDOW.in_size[1])


@triton.jit
def read_by_tap(pixel, tap, WINDOW: tl.constexpr):
    """Return the input pixels, int64, that output pixels read by taps of a :class:`Window`, and which are in the image.

    A window that leaves one camera's map does not reach into the next one's.
    """
    y, x, first = first_read(pixel, WINDOW)
    down, across = tap_offset(tap, WINDOW)
    return (first + down * WINDOW.in_size[1] + across).to(tl.int64), is_inside(y + down, x + across, WINDOW)
