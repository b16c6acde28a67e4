# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Recognise which channels and pixels of a map a view shows, by where its elements come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import torch

from cacheinf_ros.graph.window import Pair

_LARGEST_FACTOR = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """Selected channels and pixels, int64: out[c, y, x] = in[channels[c], rows[y], columns[x]]."""

    channels: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor

    def keeps_pixels(self, size: Pair) -> bool:
        """Tell whether the selection has all pixels of the map, in place."""
        return torch.equal(self.rows, torch.arange(size[0])) and torch.equal(self.columns, torch.arange(size[1]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shuffle:
    """Pixel shuffle of a selection.

    Attributes:
        phase_major: order of the channels, as of the operator.
    """

    selection: Selection
    factor: int
    phase_major: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Some channels of a view.

    Attributes:
        positions: int64, numbers of these channels.
        selection: what these channels show.
    """

    positions: torch.Tensor
    selection: Selection


def as_selection(index: torch.Tensor, size: Pair) -> Selection | None:
    """Return the view as a selection; None where it is none.

    Args:
        index: int64 [channels, height, width], the positions in the flattened map.
        size: (height, width) of the map.
    """
    pixels = size[0] * size[1]
    channels = index[:, 0, 0] // pixels
    rows, columns = index[0, :, 0] % pixels // size[1], index[0, 0, :] % size[1]
    expected = (channels * pixels)[:, None, None] + (rows * size[1])[:, None] + columns
    return Selection(channels=channels, rows=rows, columns=columns) if torch.equal(expected, index) else None


def as_shuffle(index: torch.Tensor, size: Pair) -> Shuffle | None:
    """Return the view as a pixel shuffle of a selection, or None; arguments are those of :func:`as_selection`."""
    count, height, width = index.shape
    for factor in range(2, min(_LARGEST_FACTOR, gcd(height, width)) + 1):
        if height % factor or width % factor:
            continue
        phases = index.view(count, height // factor, factor, width // factor, factor).permute(2, 4, 0, 1, 3)
        selection = as_selection(phases.flatten(0, 2), size)
        if selection is not None:
            return _ordered(selection, factor)
    return None


def _ordered(selection: Selection, factor: int) -> Shuffle:
    """Order channels as torch does, where that makes them those of the map."""
    torch_order = selection.channels.view(factor * factor, -1).t().flatten()
    if torch.equal(torch_order, torch.arange(len(torch_order))):
        selection = Selection(channels=torch_order, rows=selection.rows, columns=selection.columns)
        return Shuffle(selection=selection, factor=factor, phase_major=False)
    return Shuffle(selection=selection, factor=factor, phase_major=True)


def as_parts(index: torch.Tensor, size: Pair) -> list[Part] | None:
    """Return the view as selections side by side, each of channels with the same pixels (pixel unshuffle); or None."""
    factor = size[0] // index.shape[1]
    if not 2 <= factor <= _LARGEST_FACTOR or (size[0] // factor, size[1] // factor) != index.shape[1:]:
        return None
    pixels = index % (size[0] * size[1])
    patterns, which = torch.unique(pixels.flatten(1), dim=0, return_inverse=True)
    if len(patterns) > factor * factor:
        return None
    parts = list(_parts(index, which, len(patterns), size))
    return parts if len(parts) == len(patterns) else None


def _parts(index: torch.Tensor, which: torch.Tensor, count: int, size: Pair) -> Iterator[Part]:
    for pattern in range(count):
        positions = torch.nonzero(which == pattern).flatten()
        selection = as_selection(index[positions], size)
        if selection is not None:
            yield Part(positions=positions, selection=selection)
