# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Taps of resizing, padding, cropping and pooling along one axis, and what a table of taps amounts to."""

from __future__ import annotations

from collections.abc import Callable

import torch

from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps


def taps_at(positions: torch.Tensor, in_size: int) -> AxisTaps:
    """Make one tap per output pixel: positions int64 [out_size], :data:`OUTSIDE` where there is no input pixel."""
    index = positions.to(torch.int32).view(-1, 1).contiguous()
    return AxisTaps(index=index, weight=torch.ones(index.shape), in_size=in_size)


def same_taps(size: int) -> AxisTaps:
    """Make the taps that leave each pixel where it is."""
    return taps_at(torch.arange(size), size)


def weighted_taps(matrix: torch.Tensor) -> AxisTaps:
    """Make taps from the weight of every input pixel for every output pixel: float [out_size, in_size]."""
    used = matrix != 0
    count = max(1, int(used.sum(1).max()))
    order = used.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :count]
    weight = matrix.gather(1, order)
    index = torch.where(weight != 0, order, OUTSIDE).to(torch.int32)
    return AxisTaps(index=index.contiguous(), weight=weight.float().contiguous(), in_size=matrix.shape[1])


def averaging_taps(in_size: int, out_size: int) -> AxisTaps:
    """Make the taps of adaptive average pooling.

    Output i averages from floor(i * in / out) up to ceil((i + 1) * in / out).
    """
    matrix = torch.zeros(out_size, in_size)
    for i in range(out_size):
        start, end = i * in_size // out_size, -((i + 1) * in_size // -out_size)
        matrix[i, start:end] = 1 / (end - start)
    return weighted_taps(matrix)


def resized_taps(resize: Callable[[torch.Tensor], torch.Tensor], in_size: int) -> AxisTaps:
    """Find the taps of a linear function [1, n, in_size, 2] -> [1, n, out_size, 2] of columns: try it on unit vectors.

    There are two columns because torch 2.13 resizes a single one wrongly when it smooths it too.
    """
    unit = torch.eye(in_size).view(1, in_size, in_size, 1)
    return weighted_taps(resize(unit.repeat(1, 1, 1, 2))[0, :, :, 0].t())


def is_single(taps: AxisTaps) -> bool:
    """Tell whether each output pixel is an input pixel, or the fill."""
    return taps.index.shape[1] == 1 and bool((taps.weight == 1).all())


def reads_outside(taps: AxisTaps) -> bool:
    """Tell whether an output pixel depends on what lies outside the image."""
    return bool(((taps.index == OUTSIDE) & (taps.weight != 0)).any())


def is_same(taps: AxisTaps) -> bool:
    """Tell whether each pixel stays where it is."""
    return taps.out_size == taps.in_size and is_single(taps) and torch.equal(taps.index, same_taps(taps.in_size).index)


def padding_of(taps: AxisTaps) -> tuple[int, int] | None:
    """Return (before, after) where the image is whole and in place between what was added; otherwise None."""
    if not is_single(taps):
        return None
    inside = torch.nonzero(taps.index[:, 0] != OUTSIDE).flatten()
    if not torch.equal(taps.index[inside, 0], same_taps(taps.in_size).index[:, 0]):
        return None
    before = int(inside[0])
    if not torch.equal(inside, torch.arange(before, before + taps.in_size)):
        return None
    return before, taps.out_size - taps.in_size - before


def every_second(taps: AxisTaps) -> int | None:
    """Return the first pixel, 0 or 1, where every second one is taken from there on; otherwise None."""
    begin = int(taps.index[0, 0])
    is_half = is_single(taps) and taps.in_size == 2 * taps.out_size
    return begin if is_half and taps.index[:, 0].tolist() == list(range(begin, taps.in_size, 2)) else None


def composed(first: AxisTaps, second: AxisTaps) -> AxisTaps:
    """Compose two tables of single taps: the second is applied to the result of the first."""
    index = second.index[:, 0].long()
    through = torch.where(index == OUTSIDE, OUTSIDE, first.index[:, 0].long()[index.clamp(min=0)])
    return taps_at(through, first.in_size)
