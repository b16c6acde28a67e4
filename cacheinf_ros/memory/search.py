"""Exact search for a placement below a capacity, by depth first and bottom up.

After MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning",
2023): if there is a solution, there is a *canonical* one, in which nothing can be moved down. Its tensors are placed in
the order of their offsets, each on top of what lies below it. So a state is what is left to place, and the lowest place
that each of it can still take. A state is given up where what is left does not fit into some *section* of time (between
two events): stacked up, each not below its lowest place. A tensor is not placed where another one would fit below it
entirely. Where what is left falls apart in time, each part is placed on its own: one that fails makes the others
pointless.
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
    members, lowest = np.arange(len(records)), np.zeros(len(records), np.int64)
    steps, above = np.array([most_steps]), np.zeros(int(ends.max()), np.int64)
    if _is_hopeless(members, lowest, starts, ends, sizes, 0, capacity, above):
        verdict = IMPOSSIBLE
    else:
        verdict = int(_place_all(members, lowest, 0, -1, starts, ends, sizes, capacity, steps, above, offsets))
    placed = np.empty_like(offsets)
    placed[order] = offsets
    return verdict, placed


def sections(records: Sequence[TensorRecord]) -> tuple[Numbers, Numbers]:
    """First section of each tensor's life and the one after its last; a section ends where a tensor begins to live."""
    _, firsts, lasts = columns(records)
    events = np.unique(firsts)
    starts, ends = np.searchsorted(events, firsts), np.searchsorted(events, lasts, side="right")
    return starts.astype(np.int64), ends.astype(np.int64)


@compiled(*[_NUMBERS] * 5, types.int64, types.int64, _NUMBERS, returns=types.boolean)
def _is_hopeless(
    members: Numbers,
    lowest: Numbers,
    starts: Numbers,
    ends: Numbers,
    sizes: Numbers,
    last: int,
    capacity: int,
    above: Numbers,
) -> bool:
    """Whether in some section what is left does not fit: each at ``last`` or its lowest place, or above.

    Args:
        members: what is left, by growing lowest place.
        above: scratch, one per section.
    """
    for member in members:
        above[starts[member] : ends[member]] = 0
    for i in range(len(members) - 1, -1, -1):  # of those that cannot lie lower, the sum fits above the lowest of them
        member, room = members[i], capacity - max(lowest[i], last)
        for section in range(starts[member], ends[member]):
            above[section] += sizes[member]
            if above[section] > room:
                return True
    return False


@compiled()
def _next(
    members: Numbers, lowest: Numbers, sizes: Numbers, last: int, last_index: int, tried_offset: int, tried_index: int
) -> int:
    """The position of the member to try after one that was tried: by offset, then by order; -1: there is none."""
    lid = _BIG  # a tensor that is placed here or higher would leave room for another one below it
    best, best_offset = -1, _BIG
    for i in range(len(members)):
        place, member = lowest[i], members[i]
        if place >= lid or place > best_offset:
            break
        lid = min(lid, place + sizes[member])
        if place < last or (place == last and member < last_index):
            continue
        if place < tried_offset or (place == tried_offset and member <= tried_index):
            continue
        if best < 0 or member < members[best]:
            best, best_offset = i, place
    return best


@compiled()
def _rest(
    members: Numbers, lowest: Numbers, chosen: int, end: int, starts: Numbers, ends: Numbers
) -> tuple[Numbers, Numbers]:
    """What is left without the chosen one, which ends at an offset: others that it meets can only lie above it."""
    rest, raised = np.empty(len(members) - 1, np.int64), np.empty(len(members) - 1, np.int64)
    first, last = starts[members[chosen]], ends[members[chosen]]
    count = 0
    for part in range(3):  # by growing lowest place: below the end, raised to it, above it
        for i in range(len(members)):
            if i == chosen:
                continue
            meets = starts[members[i]] < last and first < ends[members[i]]
            lifted = meets and lowest[i] < end
            if (part == 1) == lifted and (lifted or (part == 0) == (lowest[i] < end)):
                rest[count], raised[count] = members[i], end if lifted else lowest[i]
                count += 1
    return rest, raised


@compiled()
def _meets_any(one: int, others: Numbers, starts: Numbers, ends: Numbers) -> bool:
    return bool(np.any((starts[others] < ends[one]) & (starts[one] < ends[others])))


@compiled()
def _parts(members: Numbers, starts: Numbers, ends: Numbers, joined: Numbers) -> tuple[int, Numbers]:
    """How many parts there are that are never alive together, and which one each member belongs to."""
    for member in members:
        joined[starts[member] : ends[member]] = 0
    for member in members:
        joined[starts[member] + 1 : ends[member]] = 1  # with the section before
    first, last = starts[members].min(), ends[members].max()
    names = np.empty(last - first, np.int64)
    count = 0
    for section in range(first, last):
        count += joined[section] == 0 and section > first
        names[section - first] = count
    part = names[starts[members] - first]
    present = np.zeros(count + 1, np.int64)
    present[part] = 1
    numbers = np.cumsum(present) - 1
    return present.sum(), numbers[part]


@compiled(
    _NUMBERS, _NUMBERS, types.int64, types.int64, *[_NUMBERS] * 3, types.int64, *[_NUMBERS] * 3, returns=types.int64
)
def _place_all(
    members: Numbers,
    lowest: Numbers,
    last: int,
    last_index: int,
    starts: Numbers,
    ends: Numbers,
    sizes: Numbers,
    capacity: int,
    steps: Numbers,
    scratch: Numbers,
    offsets: Numbers,
) -> int:
    """Place the members, none lower than ``last``; where that is impossible, their offsets are -1 again.

    Args:
        members: what is left, by growing lowest place.
        last_index: of the one placed before, at ``last``: the next one at the same offset comes later in order.
        steps: [1], how many are left.
        scratch: one per section.
    """
    tried_offset, tried_index = -1, -1
    while True:
        chosen = _next(members, lowest, sizes, last, last_index, tried_offset, tried_index)
        if chosen < 0:
            return IMPOSSIBLE
        if steps[0] <= 0:
            return GIVEN_UP
        steps[0] -= 1
        index, place = members[chosen], lowest[chosen]
        tried_offset, tried_index = place, index
        if place + sizes[index] > capacity:
            continue
        rest, raised = _rest(members, lowest, chosen, place + sizes[index], starts, ends)
        offsets[index] = place
        if len(rest) == 0:
            return FOUND
        verdict = IMPOSSIBLE
        if not _is_hopeless(rest, raised, starts, ends, sizes, place, capacity, scratch):
            count, part = _parts(rest, starts, ends, scratch)
            verdict = FOUND
            for number in range(count):
                mine = part == number
                verdict = _place_all(
                    rest[mine], raised[mine], place, index, starts, ends, sizes, capacity, steps, scratch, offsets
                )
                if verdict != FOUND:
                    break
        if verdict != IMPOSSIBLE:
            return verdict
        offsets[index] = -1
        offsets[rest] = -1
        if not _meets_any(index, rest, starts, ends):
            # it was in nobody's way: the others fail wherever it lies, and by the order of offsets it cannot come later
            return IMPOSSIBLE
