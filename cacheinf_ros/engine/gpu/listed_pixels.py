# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What all kernels on listed pixels share: which pixels a program computes, and how it reads and writes maps."""

# What Triton compiles is not Python: types are left out.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def listed_block(listed, number, PIXELS: tl.constexpr):
    """(positions in the list, the pixels there, which positions are in the list) of a program's block.

    A grid is as large as all pixels would need; programs behind the list's end find none and leave.
    """
    position = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    live = position < number
    pixel = tl.load(listed + position, mask=live, other=0).to(tl.int64)
    return position.to(tl.int64), pixel, live


@triton.jit
def load_floats(address, mask, other):
    """Values of a map as float32, whatever type it keeps them in."""
    return tl.load(address, mask=mask, other=other).to(tl.float32)


@triton.jit
def store_rows(out, out_pitch, position, pixel, column, value, mask, COMPACT: tl.constexpr):
    """Write a block [pixels, columns]: at its pixels in a map, or with ``COMPACT`` at its positions in the list.

    Values are rounded to the type that the map keeps them in.
    """
    row = position if COMPACT else pixel
    tl.store(out + row[:, None] * out_pitch + column[None, :], value, mask=mask)
