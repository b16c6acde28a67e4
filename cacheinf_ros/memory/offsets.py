# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Strategies that place tensors anywhere in one arena.

They are those of sections 5.2 and 5.3 of Pisarchyk and Lee (2020), and those that the authors compare with: tensors in
order, after Lee et al. (2019), and Sekiyama et al., "Profile-guided memory optimization for deep neural networks"
(2018).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cacheinf_ros.memory.placement import Placement
from cacheinf_ros.memory.records import TensorRecord, by_breadth, by_size, columns


def greedy_by_size(records: Sequence[TensorRecord]) -> Placement:
    """Place the largest tensors first, each into the smallest gap that takes it (section 5.2)."""
    return fill_gaps(records, by_size(records))


def greedy_by_breadth(records: Sequence[TensorRecord]) -> Placement:
    """Place the tensors of operators of the largest breadth first (section 5.3)."""
    return fill_gaps(records, by_breadth(records))


def greedy_in_order(records: Sequence[TensorRecord]) -> Placement:
    """Place tensors in the order of execution (Lee et al., 2019)."""
    return fill_gaps(records, sorted(range(len(records)), key=lambda i: records[i].first))


def fill_gaps(records: Sequence[TensorRecord], order: Iterable[int]) -> Placement:
    """Place tensors in turn, each into the smallest gap between those alive at the same time, or behind them."""
    placed = Placed(len(records))
    offsets = [0] * len(records)
    for index in order:
        offsets[index] = placed.take(records[index])
    return Placement(offsets=tuple(offsets), size=placed.end)


class Placed:
    """Tensors that have been placed, by ascending offset.

    Attributes:
        end: end of the last one, which is the size of the arena, in bytes.
    """

    def __init__(self, room: int) -> None:
        """Allocate a table for ``room`` tensors."""
        self._table = np.empty((4, room), np.int64)  # offset, end, first, last
        self._count = 0
        self.end = 0

    def take(self, record: TensorRecord) -> int:
        """Find a place for the tensor, and return its offset."""
        offset, end, first, last = self._table[:, : self._count]
        living = (first <= record.last) & (last >= record.first)
        starts, ends = offset[living], np.maximum.accumulate(end[living], dtype=np.int64)
        before = np.concatenate([[0], ends])  # each gap begins where everything below it has ended
        gaps = starts - before[:-1]
        fits = np.flatnonzero(gaps >= record.size)
        place = int(before[fits[gaps[fits].argmin()]]) if len(fits) else int(before[-1])
        self._insert(place, record)
        self.end = max(self.end, place + record.size)
        return place

    def _insert(self, place: int, record: TensorRecord) -> None:
        at = int(np.searchsorted(self._table[0, : self._count], place, side="right"))
        self._table[:, at + 1 : self._count + 1] = self._table[:, at : self._count]
        self._table[:, at] = place, place + record.size, record.first, record.last
        self._count += 1


def strip_packing_best_fit(records: Sequence[TensorRecord], *, largest_first: bool = True) -> Placement:
    """Place by the best-fit heuristic for strip packing, with time as the strip's other side (Sekiyama et al., 2018).

    The skyline's lowest line is filled with the tensor of the longest life that fits between the line's ends; a line
    that takes none is lifted to its lower neighbour.

    Args:
        largest_first: whether of tensors that live equally long the largest is taken; otherwise the one that begins
            earliest.
    """
    if not records:
        return Placement(offsets=(), size=0)
    size, first, last = columns(records)
    among_equal = -size if largest_first else first
    offsets = np.full(len(records), -1, np.int64)
    skyline = [(int(first.min()), int(last.max()) + 1, 0)]  # (start, end, offset), in order of time
    while (offsets < 0).any():
        line = min(range(len(skyline)), key=lambda i: skyline[i][2])
        start, end, offset = skyline[line]
        fits = np.flatnonzero((offsets < 0) & (first >= start) & (last < end))
        if not len(fits):
            _lift(skyline, line)
            continue
        best = int(fits[np.lexsort((among_equal[fits], first[fits] - last[fits]))[0]])
        offsets[best] = offset
        begin, stop, top = int(first[best]), int(last[best]) + 1, offset + int(size[best])
        parts = [(start, begin, offset), (begin, stop, top), (stop, end, offset)]
        skyline[line : line + 1] = [part for part in parts if part[0] < part[1]]
        _join(skyline)
    return Placement(offsets=tuple(offsets.tolist()), size=int((offsets + size).max()))


def _lift(skyline: list[tuple[int, int, int]], line: int) -> None:
    neighbours = [skyline[i][2] for i in (line - 1, line + 1) if 0 <= i < len(skyline)]
    start, end, _ = skyline[line]
    skyline[line] = (start, end, min(neighbours))
    _join(skyline)


def _join(skyline: list[tuple[int, int, int]]) -> None:
    """Join neighbouring lines at the same offset into one."""
    joined = [skyline[0]]
    for start, end, offset in skyline[1:]:
        if offset == joined[-1][2]:
            joined[-1] = (joined[-1][0], end, offset)
        else:
            joined.append((start, end, offset))
    skyline[:] = joined
