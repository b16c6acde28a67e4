# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The Triton kernel that resizes a camera's frame, compares it with the last one, and writes it to the model's input.

Sums have the same terms in the same order as those of the compiled kernels (``isa/input.cpp``) and of OpenCV. Launch it
with ``enable_fp_fusion=False``, as fused products are not rounded where theirs are.
"""

# What Triton compiles is not plain Python, so there are no type annotations.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

EVERYTHING = tl.constexpr(1)
"""The flag of a frame of which all touched pixels count as changed."""
TOUCH_ALL = tl.constexpr(2)
"""The flag of a frame that touches all pixels, whatever its blocks say."""
TOUCH_MARGIN = tl.constexpr(4)
"""The flag of a frame that also touches the margin, where the input shows nothing of the frame."""


@triton.jit
def _resized(
    frame, rows, row_weights, columns, column_weights, scale, y, x, shown, in_margin, channel,
    FRAME_WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BY_AREA: tl.constexpr,
    HALVES_UP: tl.constexpr, MARGIN: tl.constexpr,
):  # fmt: skip
    """Resize a channel of the frame to pixels (y, x) of the model's input, int32: see ``FrameTaps``."""
    kind = tl.float32 if BY_AREA else tl.int32
    total = tl.zeros(y.shape, kind)
    for i in range(ROWS):
        row = tl.load(rows + y * ROWS + i, mask=shown, other=0)
        row_weight = tl.load(row_weights + y * ROWS + i, mask=shown, other=0.0).to(kind)
        line = tl.zeros(y.shape, kind)
        for j in range(COLUMNS):
            column = tl.load(columns + x * COLUMNS + j, mask=shown, other=0)
            weight = tl.load(column_weights + x * COLUMNS + j, mask=shown, other=0.0).to(kind)
            value = tl.load(frame + (row * FRAME_WIDTH + column) * 3 + channel, mask=shown, other=0)
            line += value.to(kind) * weight
        if BY_AREA:
            total += row_weight * line
        else:
            total += (row_weight * (line >> 4)) >> 16
    if not BY_AREA:
        value = (total + 2) >> 2
    elif HALVES_UP:
        value = tl.floor(total * scale + 0.5).to(tl.int32)
    else:
        value = ((total * scale + 12582912.0) - 12582912.0).to(tl.int32)  # 1.5 * 2**23: halves are rounded to even
    return tl.where(in_margin, MARGIN, tl.minimum(value, 255))


@triton.jit
def _compared(
    frame, rows, row_weights, columns, column_weights, scale, y, x, touches, in_margin, table, weight, seen, channel,
    FRAME_WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BY_AREA: tl.constexpr,
    HALVES_UP: tl.constexpr, MARGIN: tl.constexpr,
):  # fmt: skip
    """Compare a channel with what was seen.

    Returns (its level, its value, whether the level is another one than was seen, weight * the value's change squared).
    """
    shown = touches & (in_margin == 0)
    new = _resized(
        frame, rows, row_weights, columns, column_weights, scale, y, x, shown, in_margin, channel,
        FRAME_WIDTH, ROWS, COLUMNS, BY_AREA, HALVES_UP, MARGIN,
    )  # fmt: skip
    was = tl.load(seen + channel, mask=touches, other=0).to(tl.int32)
    value = tl.load(table + new, mask=touches, other=0.0)
    change = value - tl.load(table + was, mask=touches, other=0.0)
    return new, value, new != was, weight * change * change


@triton.jit
def _write(composed, seen, out, level, value, touches, passes):
    """Write a channel's levels where touched, and its seen levels and values where the pixel passes."""
    tl.store(composed, level.to(tl.uint8), mask=touches)
    tl.store(seen, level.to(tl.uint8), mask=passes)
    tl.store(out, value, mask=passes)


@triton.jit
def write_frame(
    frame, blocks, flags, block_rows, block_columns, rows, row_weights, columns, column_weights, scale,
    table, limits, composed, seen, out, out_pitch, changed, count,
    OUT_PIXELS: tl.constexpr, WIDTH: tl.constexpr, FRAME_WIDTH: tl.constexpr, BLOCKS_X: tl.constexpr,
    TAPS_Y: tl.constexpr, TAPS_X: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BY_AREA: tl.constexpr,
    HALVES_UP: tl.constexpr, MARGIN: tl.constexpr, FIRST: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Compose the pixels of a frame that read an active block; write and mark those that differ enough.

    Args:
        frame: uint8 [height, FRAME_WIDTH, 3], as the camera gives it.
        blocks: uint8 [rows, BLOCKS_X], 1 where active.
        flags: int32 [1]: the sum of the flags at the top of this file.
        block_rows, block_columns: int32 [side, taps]: the blocks that each pixel of the input reads; < 0: none.
        rows, row_weights, columns, column_weights, scale: see ``FrameTaps``.
        table: float32 [3, 256]: by channel of the input, the value of each level.
        limits: float32 [4]: the squared threshold, and by channel of the input the squared weight of a change.
        composed, seen: uint8 [OUT_PIXELS, 3], channels as in the frame: see ``InputWriter``.
        changed: uint8 [OUT_PIXELS]: 1 where a pixel changed; every entry is written.
        count: int32 [1], which must be 0 before: the number of changed pixels.
        FIRST: which channel of the frame is the first of the input, 0 or 2.
    """
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    live = pixel < OUT_PIXELS
    y, x = pixel // WIDTH, pixel % WIDTH
    word = tl.load(flags)
    first_row = tl.load(rows + y * ROWS, mask=live, other=0)
    in_margin = (first_row < 0) | (tl.load(columns + x * COLUMNS, mask=live, other=0) < 0)
    touched = tl.where(in_margin, word & (TOUCH_ALL | TOUCH_MARGIN), word & TOUCH_ALL)
    for i in range(TAPS_Y):
        block_row = tl.load(block_rows + y * TAPS_Y + i, mask=live, other=-1)
        for j in range(TAPS_X):
            block_column = tl.load(block_columns + x * TAPS_X + j, mask=live, other=-1)
            is_block = (block_row >= 0) & (block_column >= 0)
            touched |= tl.load(blocks + block_row * BLOCKS_X + block_column, mask=is_block, other=0).to(tl.int32)
    touches = (touched != 0) & live
    a, value_a, differs_a, squares_a = _compared(
        frame, rows, row_weights, columns, column_weights, scale, y, x, touches, in_margin,
        table, tl.load(limits + 1), seen + pixel * 3, FIRST,
        FRAME_WIDTH, ROWS, COLUMNS, BY_AREA, HALVES_UP, MARGIN,
    )  # fmt: skip
    b, value_b, differs_b, squares_b = _compared(
        frame, rows, row_weights, columns, column_weights, scale, y, x, touches, in_margin,
        table + 256, tl.load(limits + 2), seen + pixel * 3, 1,
        FRAME_WIDTH, ROWS, COLUMNS, BY_AREA, HALVES_UP, MARGIN,
    )  # fmt: skip
    c, value_c, differs_c, squares_c = _compared(
        frame, rows, row_weights, columns, column_weights, scale, y, x, touches, in_margin,
        table + 512, tl.load(limits + 3), seen + pixel * 3, 2 - FIRST,
        FRAME_WIDTH, ROWS, COLUMNS, BY_AREA, HALVES_UP, MARGIN,
    )  # fmt: skip
    is_large = squares_a + squares_b + squares_c > tl.load(limits)
    passes = touches & (((differs_a | differs_b | differs_c) & is_large) | ((word & EVERYTHING) != 0))
    composed, seen, out = composed + pixel * 3, seen + pixel * 3, out + pixel * out_pitch
    _write(composed + FIRST, seen + FIRST, out, a, value_a, touches, passes)
    _write(composed + 1, seen + 1, out + 1, b, value_b, touches, passes)
    _write(composed + 2 - FIRST, seen + 2 - FIRST, out + 2, c, value_c, touches, passes)
    hit = tl.where(passes, 1, 0)
    tl.store(changed + pixel, hit.to(tl.uint8), mask=live)
    tl.atomic_add(count, tl.sum(hit, axis=0))
