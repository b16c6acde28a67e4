# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rewrites of moves of pixels, and of pooling of moved pixels."""

from __future__ import annotations

from dataclasses import replace

from cacheinf_ros.graph.fusing.rewriting import Done, Rewrite
from cacheinf_ros.graph.ir import Pool, Resample
from cacheinf_ros.graph.make_taps import composed, is_same, is_single, padding_of, reads_outside
from cacheinf_ros.graph.window import Pair


def nothing_moved(done: Done, resample: Resample) -> Rewrite | None:
    """Replace a resampling that moves nothing by the tensor itself."""
    same = done.tensors[resample.inputs[0]].shape == done.tensors[resample.output].shape
    return (
        Rewrite(same_as=resample.inputs[0]) if same and is_same(resample.rows) and is_same(resample.columns) else None
    )


def two_moves(done: Done, resample: Resample) -> Rewrite | None:
    """Combine two moves of pixels into one."""
    first = done.sole(resample.inputs[0], Resample)
    if first is None or not all(is_single(t) for r in (first, resample) for t in (r.rows, r.columns)):
        return None
    outside = [r for r in (first, resample) if reads_outside(r.rows) or reads_outside(r.columns)]
    if len({r.fill for r in outside}) > 1:
        return None
    fill = outside[0].fill if outside else 0.0
    rows, columns = composed(first.rows, resample.rows), composed(first.columns, resample.columns)
    merged = replace(resample, inputs=first.inputs, rows=rows, columns=columns, fill=fill)
    return Rewrite(absorbed=(first,), operators=(merged,))


def take_padding(done: Done, pool: Pool) -> Rewrite | None:
    """Rewrite pool(padded): the window begins further outside, where it finds the same values there."""
    pad = done.made_by(pool.inputs[0], Resample)
    border = border_of(pad) if pad else None
    if pad is None or border is None or not _pads_alike(pool, pad, border):
        return None
    padding = (pool.window.padding[0] + border[0][0], pool.window.padding[1] + border[1][0])
    window = replace(pool.window, in_size=(pad.rows.in_size, pad.columns.in_size), padding=padding)
    return Rewrite(operators=(replace(pool, inputs=pad.inputs, window=window),))


def border_of(resample: Resample) -> tuple[Pair, Pair] | None:
    """Return ((top, bottom), (left, right)) of what was padded; None where pixels moved in other ways too."""
    vertical, horizontal = padding_of(resample.rows), padding_of(resample.columns)
    return None if vertical is None or horizontal is None else (vertical, horizontal)


def _pads_alike(pool: Pool, pad: Resample, border: tuple[Pair, Pair]) -> bool:
    """Tell whether the padding before a pool is the pool's own kind.

    A maximum pads with minus infinity; an average with zeros that count, as many on both sides.
    """
    if not pool.average:
        return pad.fill == float("-inf")
    if pad.fill != 0 or not pool.count_padding or pool.window.padding != (0, 0):
        return False
    return all(_is_even(pool, axis, amounts) for axis, amounts in enumerate(border))


def _is_even(pool: Pool, axis: int, amounts: Pair) -> bool:
    """Tell whether all windows lie inside a border that torch's average pooling takes."""
    window = pool.window
    end = (window.out_size[axis] - 1) * window.stride[axis] + window.kernel[axis]
    return amounts[0] == amounts[1] and 2 * amounts[0] <= window.kernel[axis] and end <= window.in_size[axis]
