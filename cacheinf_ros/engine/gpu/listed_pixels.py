# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What all kernels on listed pixels share: which pixels a program computes, and how it reads and writes maps."""

# What Triton compiles is not Python: types are left out.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl


class Tile(NamedTuple):
    """The listed pixels, and of them the channels, that a program computes; Triton's blocks.

    Attributes:
        position: int64 [pixels], in the list.
        pixel: int64 [pixels], there.
        live: bool [pixels]: which positions are in the list.
        channel: int32 [columns].
        is_channel: bool [columns]: which of them there are.
        mask: bool [pixels, columns]: both.
    """

    position: Any
    pixel: Any
    live: Any
    channel: Any
    is_channel: Any
    mask: Any


@triton.jit
def listed_block(listed, number, block, PIXELS: tl.constexpr):
    """(positions in the list, the pixels there, which positions are in the list) of a block of the list."""
    position = block * PIXELS + tl.arange(0, PIXELS)
    live = position < number
    pixel = tl.load(listed + position, mask=live, other=0).to(tl.int64)
    return position.to(tl.int64), pixel, live


@triton.jit
def listed_tile(listed, number, CHANNELS: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr):
    """The :class:`Tile` of a program: its place in the grid says which block of the list, and which of the columns.

    A grid is as large as all pixels would need; programs behind the list's end find none and leave.
    """
    position, pixel, live = listed_block(listed, number, tl.program_id(0), PIXELS)
    channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_channel = channel < CHANNELS
    return Tile(position, pixel, live, channel, is_channel, live[:, None] & is_channel[None, :])


@triton.jit
def load_floats(address, mask, other):
    """Values of a map as float32, whatever type it keeps them in."""
    return tl.load(address, mask=mask, other=other).to(tl.float32)


@triton.jit
def load_rows(source, pitch, tile, other):
    """A tile of a map as float32 [pixels, columns]; ``other``: where nothing is to be computed."""
    return load_floats(source + tile.pixel[:, None] * pitch + tile.channel[None, :], tile.mask, other)


@triton.jit
def store_rows(out, out_pitch, tile, value, COMPACT: tl.constexpr):
    """Write a tile [pixels, columns]: at its pixels in a map, or with ``COMPACT`` at its positions in the list.

    Values are rounded to the type that the map keeps them in.
    """
    row = tile.position if COMPACT else tile.pixel
    tl.store(out + row[:, None] * out_pitch + tile.channel[None, :], value, mask=tile.mask)


@triton.jit
def first_read(pixel, WINDOW: tl.constexpr):
    """(row, column, input pixel) that output pixels read by the first tap of a :class:`Window`, int32; the row and the
    column may lie outside the image, and the pixel is then none of it.

    Maps of several cameras lie below one another: the row is that in the pixel's own image.
    """
    pixel = pixel.to(tl.int32)  # divisions of 64 bits take several times as long
    row = pixel // WINDOW.out_size[1]
    y = row % WINDOW.out_size[0] * WINDOW.stride[0] - WINDOW.padding[0]
    x = pixel % WINDOW.out_size[1] * WINDOW.stride[1] - WINDOW.padding[1]
    return y, x, (row // WINDOW.out_size[0] * WINDOW.in_size[0] + y) * WINDOW.in_size[1] + x


@triton.jit
def tap_offset(tap, WINDOW: tl.constexpr):
    """(rows, columns) from what the first tap of a :class:`Window` reads to what another one does."""
    return tap // WINDOW.kernel[1] * WINDOW.dilation[0], tap % WINDOW.kernel[1] * WINDOW.dilation[1]


@triton.jit
def is_inside(y, x, WINDOW: tl.constexpr):
    """Whether a row and a column lie inside the image that a :class:`Window` reads."""
    return (y >= 0) & (y < WINDOW.in_size[0]) & (x >= 0) & (x < WINDOW.in_size[1])


@triton.jit
def read_by_tap(pixel, tap, WINDOW: tl.constexpr):
    """(input pixels, int64, whether they lie inside the image) that output pixels read by taps of a :class:`Window`.

    No window reaches from the map of one camera into the next.
    """
    y, x, first = first_read(pixel, WINDOW)
    down, across = tap_offset(tap, WINDOW)
    return (first + down * WINDOW.in_size[1] + across).to(tl.int64), is_inside(y + down, x + across, WINDOW)
