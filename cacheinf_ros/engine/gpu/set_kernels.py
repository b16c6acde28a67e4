# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Triton kernels on active sets: propagation, unions, lists, and which pixels changed by more than a threshold.

Lists are in no particular order, as every pixel is computed independently of its place in the list.
"""

# What Triton compiles is not plain Python, so there are no type annotations.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from cacheinf_ros.engine.gpu.listed_pixels import listed_block, load_floats


@triton.jit
def count_of(count, camera, CAMERAS: tl.constexpr):
    """Return the address of a set's count for one camera; with several cameras those follow the count of all."""
    return count + 1 + camera if CAMERAS > 1 else count + 0 * camera


@triton.jit
def _append(hit, pixel, listed, count, OF_ONE: tl.constexpr, CAMERAS: tl.constexpr, LIST: tl.constexpr):
    """Add the pixels where ``hit`` is 1 to the counts of all and of each camera, and with ``LIST`` to the list.

    Args:
        hit: int32, 0 or 1 for each of the pixels.
        OF_ONE: the pixels of one camera.
    """
    total = tl.sum(hit, axis=0)
    first = tl.atomic_add(count, total)
    if LIST:
        tl.store(listed + first + tl.cumsum(hit, axis=0) - hit, pixel, mask=hit != 0)
    if CAMERAS > 1:
        for camera in range(CAMERAS):
            own = tl.sum(tl.where(pixel // OF_ONE == camera, hit, 0), axis=0)
            tl.atomic_add(count_of(count, camera, CAMERAS), own, mask=own > 0)


@triton.jit
def propagate(
    source, source_count, rows, columns, flags, target, listed, count,
    IN_PIXELS: tl.constexpr, IN_WIDTH: tl.constexpr, OUT_WIDTH: tl.constexpr, OUT_PIXELS: tl.constexpr,
    TAPS_Y: tl.constexpr, TAPS_X: tl.constexpr, INWARDS: tl.constexpr, CAMERAS: tl.constexpr, LIST: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """Fill the target with the pixels that read an active pixel of the source or changed padding: see ``TapTable``.

    With a full source all pixels count, even those that read nothing but padding.

    Args:
        flags: int32 [cameras]: the sides of :class:`Border`, plus 16 to refresh, plus 32 if the camera takes part.
        IN_PIXELS, OUT_PIXELS: the pixels of one camera.
    """
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    live = pixel < CAMERAS * OUT_PIXELS
    camera = pixel // OUT_PIXELS
    outside = tl.load(flags + camera, mask=live, other=0)
    hit = tl.where(tl.load(count_of(source_count, camera, CAMERAS), mask=live, other=0) == IN_PIXELS, 1, 0)
    TAPS: tl.constexpr = TAPS_Y * TAPS_X
    for tap in tl.range(0, TAPS, loop_unroll_factor=TAPS if TAPS <= 9 else 8):  # so that loads run in parallel
        y = tl.load(rows + (pixel // OUT_WIDTH) * TAPS_Y + tap // TAPS_X, mask=live, other=0)
        x = tl.load(columns + (pixel % OUT_WIDTH) * TAPS_X + tap % TAPS_X, mask=live, other=0)
        inside = (y >= 0) & (x >= 0)
        hit |= tl.load(source + y * IN_WIDTH + x, mask=inside & live, other=0).to(tl.int32)
        if not INWARDS:
            sides = tl.where(x == -1, 1, 0) | tl.where(x == -2, 2, 0)
            sides |= tl.where(y == -1, 4, 0) | tl.where(y == -2, 8, 0)
            hit |= sides & outside
    hit = tl.where((hit != 0) & live, 1, 0)
    tl.store(target + pixel, hit.to(tl.uint8), mask=live)
    _append(hit, pixel, listed, count, OUT_PIXELS, CAMERAS, LIST)


@triton.jit
def combine_sets(
    first, second, target, listed, count,
    OUT_PIXELS: tl.constexpr, DIFFERENCE: tl.constexpr, CAMERAS: tl.constexpr, LIST: tl.constexpr,
    COUNT: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Fill the target with the pixels of either set, or with those of the first that are not in the second."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    live = pixel < CAMERAS * OUT_PIXELS
    a = tl.load(first + pixel, mask=live, other=0) != 0
    b = tl.load(second + pixel, mask=live, other=0) != 0
    hit = tl.where(a & (b == 0) if DIFFERENCE else a | b, 1, 0)
    tl.store(target + pixel, hit.to(tl.uint8), mask=live)
    if COUNT:
        _append(hit, pixel, listed, count, OUT_PIXELS, CAMERAS, LIST)


@triton.jit
def fill_if_any(
    counts, which, flags, target, listed, count,
    SETS: tl.constexpr, FLAGS: tl.constexpr, OUT_PIXELS: tl.constexpr, CAMERAS: tl.constexpr, LIST: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """Fill a camera's part of the target if any of the sets has a pixel of it, or if any of ``FLAGS`` is set for it.

    Args:
        counts: int32: the counts of all sets.
        which: int32 [SETS]: the positions of the sets' counts.
    """
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    live = pixel < CAMERAS * OUT_PIXELS
    camera = pixel // OUT_PIXELS
    found = tl.load(flags + camera, mask=live, other=0) & FLAGS
    for each in range(SETS):
        found |= tl.load(count_of(counts + tl.load(which + each), camera, CAMERAS), mask=live, other=0)
    hit = tl.where(live & (found != 0), 1, 0)
    tl.store(target + pixel, hit.to(tl.uint8), mask=live)
    _append(hit, pixel, listed, count, OUT_PIXELS, CAMERAS, LIST)


@triton.jit
def _weighted_changes(
    computed, computed_pitch, old, old_pitch, weight, camera, position, pixel, live, first,
    CHANNELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute weight * |change| for a block of listed pixels, [pixels, COLUMNS], from channel ``first`` on.

    It is infinite where a value is NaN, so that the pixel is written: nothing else would take NaN out of a map.

    Args:
        weight: float32 [cameras, CHANNELS].
        camera: the camera of each pixel.
    """
    channel = first + tl.arange(0, COLUMNS)
    mask = live[:, None] & (channel < CHANNELS)[None, :]
    new = load_floats(computed + position[:, None] * computed_pitch + channel[None, :], mask, 0.0)
    was = load_floats(old + pixel[:, None] * old_pitch + channel[None, :], mask, 0.0)
    factor = tl.load(weight + camera[:, None] * CHANNELS + channel[None, :], mask=mask, other=0.0)
    change = tl.where(new == was, 0.0, tl.abs(new - was)) * factor  # equal infinities have no difference
    return tl.where(change == change, change, float("inf"))


@triton.jit
def squared_changes(
    computed, computed_pitch, old, old_pitch, weight, listed, count, squares,
    OF_ONE: tl.constexpr, CHANNELS: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write each listed pixel's sum of squared weighted changes into a map, for ``Criterion.POOLED_ENERGY``."""
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    position, pixel, live = listed_block(listed, number, tl.program_id(0), PIXELS)
    total = tl.zeros((PIXELS,), tl.float32)
    for first in range(0, CHANNELS, COLUMNS):
        each = _weighted_changes(
            computed, computed_pitch, old, old_pitch, weight, pixel // OF_ONE, position, pixel, live, first,
            CHANNELS, COLUMNS,
        )  # fmt: skip
        total += tl.sum(each * each, axis=1)
    tl.store(squares + pixel, total, mask=live)


@triton.jit
def commit(
    computed, computed_pitch, old, old_pitch, weight, thresholds, flags, squares, listed, count,
    changed, changed_listed, changed_count,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, CRITERION: tl.constexpr,
    CAMERAS: tl.constexpr, LIST: tl.constexpr, PIXELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write the computed pixels that changed by more than their camera's threshold, or all to refresh, and mark them.

    For a camera that takes no part nothing is written, whatever is listed.

    Args:
        computed: [listed, CHANNELS], in the order of the list, rounded to the dtype of the map.
        thresholds: float32 [cameras]: each camera's threshold, squared where the criterion is a sum of squares.
        squares: float32 [cameras, HEIGHT, WIDTH], 0 where nothing is listed; read only for "pooled energy".
        changed: a mask that must be 0 before; 1 where a pixel was written.
        CRITERION: the value of a :class:`Criterion`.
    """
    number = tl.load(count)
    if tl.program_id(0) * PIXELS >= number:
        return
    position, pixel, live = listed_block(listed, number, tl.program_id(0), PIXELS)
    place = pixel.to(tl.int32)
    camera = place // (HEIGHT * WIDTH)
    flag = tl.load(flags + camera, mask=live, other=0)
    change = tl.zeros((PIXELS,), tl.float32)
    if CRITERION == "pooled energy":
        for tap in range(25):
            y, x = place // WIDTH % HEIGHT + tap // 5 - 2, place % WIDTH + tap % 5 - 2
            inside = (y >= 0) & (y < HEIGHT) & (x >= 0) & (x < WIDTH) & live
            near = tl.load(squares + (camera * HEIGHT + y) * WIDTH + x, mask=inside, other=0.0)
            change += near * ((3 - tl.abs(tap // 5 - 2)) * (3 - tl.abs(tap % 5 - 2)) / 81.0)
    else:
        for first in range(0, CHANNELS, COLUMNS):
            each = _weighted_changes(
                computed, computed_pitch, old, old_pitch, weight, camera, position, pixel, live, first,
                CHANNELS, COLUMNS,
            )  # fmt: skip
            if CRITERION == "maximum":
                change = tl.maximum(change, tl.max(each, axis=1))
            else:
                change += tl.sum(each * each, axis=1)
    threshold = tl.load(thresholds + camera, mask=live, other=0.0)
    passes = (change > threshold) | ((flag & 16) != 0)
    passes = passes & ((flag & 32) != 0) & live
    for first in range(0, CHANNELS, COLUMNS):
        channel = first + tl.arange(0, COLUMNS)
        mask = passes[:, None] & (channel < CHANNELS)[None, :]
        new = tl.load(computed + position[:, None] * computed_pitch + channel[None, :], mask=mask, other=0.0)
        tl.store(old + pixel[:, None] * old_pitch + channel[None, :], new, mask=mask)
    hit = tl.where(passes, 1, 0)
    tl.store(changed + pixel, hit.to(tl.uint8), mask=passes)
    _append(hit, place, changed_listed, changed_count, HEIGHT * WIDTH, CAMERAS, LIST)
