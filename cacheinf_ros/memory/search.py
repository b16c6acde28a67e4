"""Exact search for a placement below a capacity, by depth first and bottom up.

After MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning",
2023): if there is a solution, there is a *canonical* one, in which nothing can be moved down. Its tensors are placed in
the order of their offsets, each on top of the skyline. So a state is the skyline (the *floor* of each section of time
between two events) and what is left to place. A state is given up where in some section what is left does not fit above
the lowest place that any of it can still take. A tensor is not placed where another one would fit below it entirely.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.compiled import compiled, types
from cacheinf_ros.memory.records import TensorRecord, columns

Numbers = NDArray[np.int64]

FOUND, IMPOSSIBLE, GIVEN_UP = 1, 0, -1
_NUMBERS = types.int64[::1]
_BIG = np.int64(2**62)


def search(records: Sequence[TensorRecord], capacity: int, order: Numbers, most_steps: int) -> tuple[int, Numbers]:
    """Place all tensors within a capacity.

    Args:
        order: indices of the records, those to be tried first at equal offsets first.
        most_steps: placements tried, after which the search gives up.

    Returns:
        FOUND, IMPOSSIBLE or GIVEN_UP, and the offsets, in the order of the records.
    """
    ordered = [records[i] for i in order]
    sizes, _, _ = columns(ordered)
    starts, ends = sections(ordered)
    offsets = np.full(len(records), -1, np.int64)
    verdict = int(_search(starts, ends, sizes, capacity, most_steps, offsets))
    placed = np.empty_like(offsets)
    placed[order] = offsets
    return verdict, placed


def sections(records: Sequence[TensorRecord]) -> tuple[Numbers, Numbers]:
    """First section of each tensor's life and the one after its last; a section ends where a tensor begins to live."""
    _, firsts, lasts = columns(records)
    events = np.unique(firsts)
    starts, ends = np.searchsorted(events, firsts), np.searchsorted(events, lasts, side="right")
    return starts.astype(np.int64), ends.astype(np.int64)


@compiled()
def _raise_floors(
    starts: Numbers,
    ends: Numbers,
    floors: Numbers,
    offsets: Numbers,
    from_section: int,
    to_section: int,
    lowest: Numbers,
) -> None:
    """Where each tensor that is left and touches these sections can be placed at the lowest."""
    for i in range(len(starts)):
        if offsets[i] < 0 and starts[i] < to_section and from_section < ends[i]:
            highest = 0
            for section in range(starts[i], ends[i]):
                highest = max(highest, floors[section])
            lowest[i] = highest


@compiled()
def _is_hopeless(
    starts: Numbers, ends: Numbers, offsets: Numbers, lowest: Numbers, left: Numbers, last: int, capacity: int,
    nearest: Numbers,
) -> bool:  # fmt: skip
    """Whether in some section what is left does not fit above the lowest place that any of it can take."""
    nearest[:] = _BIG
    for i in range(len(starts)):
        if offsets[i] < 0:
            place = max(lowest[i], last)
            for section in range(starts[i], ends[i]):
                nearest[section] = min(nearest[section], place)
    hopeless = False
    for section in range(len(left)):
        hopeless |= left[section] > 0 and nearest[section] + left[section] > capacity
    return hopeless


@compiled()
def _next(
    offsets: Numbers, lowest: Numbers, sizes: Numbers, last: int, last_index: int, tried_offset: int, tried_index: int
) -> int:
    """The tensor to try after one that was tried: by offset, then by order; -1: there is none."""
    lid = _BIG  # a tensor that is placed here or higher would leave room for another one below it
    for i in range(len(offsets)):
        if offsets[i] < 0:
            lid = min(lid, lowest[i] + sizes[i])
    best, best_offset = -1, _BIG
    for i in range(len(offsets)):
        if offsets[i] >= 0:
            continue
        place = lowest[i]
        if place < last or place >= lid or (place == last and i < last_index):
            continue
        if place < tried_offset or (place == tried_offset and i <= tried_index):
            continue
        if place < best_offset:
            best, best_offset = i, place
    return best


@compiled(_NUMBERS, _NUMBERS, _NUMBERS, types.int64, types.int64, _NUMBERS, returns=types.int64)
def _search(starts: Numbers, ends: Numbers, sizes: Numbers, capacity: int, most_steps: int, offsets: Numbers) -> int:
    count, parts = len(starts), int(ends.max())
    floors, left = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    lowest, nearest = np.zeros(count, np.int64), np.zeros(parts, np.int64)
    for i in range(count):
        left[starts[i] : ends[i]] += sizes[i]
    stack = np.full(count + 1, -1, np.int64)  # the tensor that is placed at each depth
    saved = np.zeros((count + 1, parts), np.int64)  # floors before that
    tried = np.full((count + 1, 2), -1, np.int64)  # (offset, index) tried last
    depth, steps = 0, 0
    if _is_hopeless(starts, ends, offsets, lowest, left, 0, capacity, nearest):
        return IMPOSSIBLE
    while True:
        last = offsets[stack[depth - 1]] if depth else 0
        last_index = stack[depth - 1] if depth else -1
        chosen = _next(offsets, lowest, sizes, last, last_index, tried[depth, 0], tried[depth, 1])
        if chosen < 0 or steps >= most_steps:
            if depth == 0 or steps >= most_steps:
                return GIVEN_UP if steps >= most_steps else IMPOSSIBLE
            depth -= 1
            undone = stack[depth]
            offsets[undone] = -1
            floors[starts[undone] : ends[undone]] = saved[depth, starts[undone] : ends[undone]]
            left[starts[undone] : ends[undone]] += sizes[undone]
            _raise_floors(starts, ends, floors, offsets, starts[undone], ends[undone], lowest)
            continue
        steps += 1
        place = lowest[chosen]
        tried[depth, 0], tried[depth, 1] = place, chosen
        if place + sizes[chosen] > capacity:
            continue
        saved[depth, starts[chosen] : ends[chosen]] = floors[starts[chosen] : ends[chosen]]
        offsets[chosen] = place
        floors[starts[chosen] : ends[chosen]] = place + sizes[chosen]
        left[starts[chosen] : ends[chosen]] -= sizes[chosen]
        stack[depth] = chosen
        depth += 1
        if depth == count:
            return FOUND
        _raise_floors(starts, ends, floors, offsets, starts[chosen], ends[chosen], lowest)
        hopeless = _is_hopeless(starts, ends, offsets, lowest, left, place, capacity, nearest)
        tried[depth, 0], tried[depth, 1] = _BIG if hopeless else -1, -1  # as if all had been tried
