# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Search exactly for a placement within a capacity, depth first and from the bottom up.

After MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning",
2023): if there is a solution, there is a *canonical* one, in which nothing can be moved down. Its tensors are placed in
the order of their offsets, each on top of what lies below it. So a state consists of the tensors left to place, and of
the lowest place that each can still take. A state is given up where the tensors left do not fit into some *section* of
time (between two events), stacked up, none below its lowest place. A tensor is not placed where another one would fit
below it entirely. Where the tensors left fall apart in time, each part is placed on its own, in an order of its own; as
soon as one part fails, the others need not be tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.jit import BOOL, FLOATS, INT, Array
from cacheinf_ros.jit.compiled import Record, compiled
from cacheinf_ros.memory.records import TensorRecord, columns

Numbers = NDArray[np.int64]

FOUND, IMPOSSIBLE, GIVEN_UP = 1, 0, -1
ORDERS = 3
"""The number of orders in which tensors can be tried: by (life, area, most alive), (most alive, area, life) or (most
alive, life, area). "Most alive" is the largest total size alive together with a tensor, of tensors left to place."""
_NUMBERS = Array("int64", 1, writable=True)
_BIG = np.int64(2**62)
# As plain tuples: numba takes much longer to recognise named ones.
Tensors: TypeAlias = tuple[
    Numbers, Numbers, Numbers, Numbers, NDArray[np.float64]
]  # starts, ends, sizes, lives, weights
Limits: TypeAlias = tuple[int, int, Numbers]  # capacity; order, see ORDERS; [1], how many steps are left
Scratch: TypeAlias = tuple[Numbers, Numbers]  # one number per section: the counts of _count; scratch for anything


class Problem:
    """Tensors to be placed.

    Attributes:
        sizes: bytes, int64 [tensors].
        lives: number of operators at which each is alive.
        starts, ends: first *section* of each tensor's life and the one after its last; a section ends where a tensor
            begins to live.
        sections: number of sections.
    """

    def __init__(self, records: Sequence[TensorRecord]) -> None:
        self.sizes, firsts, lasts = columns(records)
        self.lives = lasts + 1 - firsts
        events = np.unique(firsts)
        self.starts = np.searchsorted(events, firsts).astype(np.int64)
        self.ends = np.searchsorted(events, lasts, side="right").astype(np.int64)
        self.sections = len(events)
        self._alive = np.zeros(self.sections, np.int64)  # in each section and in the one before
        for start, end in zip(self.starts, self.ends, strict=True):
            self._alive[start + 1 : end] += 1

    def search(
        self, capacity: int, order: int, most_steps: int, weights: NDArray[np.float64] | None = None
    ) -> tuple[int, Numbers]:
        """Search for a placement of all tensors within a capacity.

        Args:
            order: in which tensors are tried at equal offsets, 0 to :data:`ORDERS` - 1.
            most_steps: placements tried, after which the search gives up.
            weights: float64 [3, tensors]: factors of the keys (most alive, area, life) that tensors are ordered by.

        Returns:
            FOUND, IMPOSSIBLE or GIVEN_UP, and the offsets, in the order of the records.
        """
        everything, scratch = np.arange(len(self.sizes)), np.zeros_like(self._alive)
        weights = np.ones((3, len(everything))) if weights is None else weights
        ranked = _ranked(everything, self.starts, self.ends, self.sizes, self.lives, weights, order, scratch)
        starts, ends, sizes, lives = (a[ranked] for a in (self.starts, self.ends, self.sizes, self.lives))
        lowest, offsets = np.zeros_like(sizes), np.full_like(sizes, -1)
        if _is_hopeless(everything, lowest, starts, ends, sizes, 0, capacity, scratch):
            return IMPOSSIBLE, offsets
        steps, alive = np.array([most_steps]), self._alive.copy()
        tensors = starts, ends, sizes, lives, np.ascontiguousarray(weights[:, ranked])
        verdict = _place_all(everything, lowest, 0, -1, tensors, (capacity, order, steps), (alive, scratch), offsets)
        placed = np.empty_like(offsets)
        placed[ranked] = offsets
        return int(verdict), placed


@compiled(*[_NUMBERS] * 5, FLOATS, INT, _NUMBERS, returns=_NUMBERS)
def _ranked(
    members: Numbers,
    starts: Numbers,
    ends: Numbers,
    sizes: Numbers,
    lives: Numbers,
    weights: NDArray[np.float64],
    order: int,
    scratch: Numbers,
) -> Numbers:
    """Sort the members by the order: those to be tried first at equal offsets come first."""
    scratch[starts[members].min() : ends[members].max()] = 0
    for member in members:
        scratch[starts[member] : ends[member]] += sizes[member]
    keys = np.empty((3, len(members)))
    for i, member in enumerate(members):
        keys[0, i] = -weights[0, member] * scratch[starts[member] : ends[member]].max()
        keys[1, i] = -weights[1, member] * lives[member] * sizes[member]
        keys[2, i] = -weights[2, member] * lives[member]
    total, area, life = keys[0], keys[1], keys[2]
    first, second, third = life, area, total
    if order == 1:
        first, second, third = total, area, life
    elif order == 2:
        first, second, third = total, life, area
    ranked = np.argsort(third, kind="mergesort")
    ranked = ranked[np.argsort(second[ranked], kind="mergesort")]
    ranked = ranked[np.argsort(first[ranked], kind="mergesort")]
    return members[ranked]


@compiled(*[_NUMBERS] * 5, INT, INT, _NUMBERS, returns=BOOL)
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
    """Tell whether the members do not fit into some section: each at ``last`` or its lowest place, or above.

    Args:
        members: tensors left to place, by ascending lowest place.
        above: scratch, one per section.
    """
    for member in members:
        above[starts[member] : ends[member]] = 0
    for i in range(len(members) - 1, -1, -1):  # this and later members cannot lie lower: their sum must fit above it
        member, highest = members[i], np.int64(0)
        for section in range(starts[member], ends[member]):  # without a branch, for the compiler to use vectors
            above[section] += sizes[member]
            highest = max(highest, above[section])
        if highest > capacity - max(lowest[i], last):
            return True
    return False


@compiled()
def _next(
    members: Numbers, lowest: Numbers, sizes: Numbers, last: int, last_index: int, tried_offset: int, tried_index: int
) -> int:
    """Return the position of the member to try after the last one tried, by offset, then by order; -1: none is left."""
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
    """Return the members without the chosen one, which ends at offset ``end``, and their lowest places.

    Members that are alive together with the chosen one can only lie above it.
    """
    left = len(members) - 1
    rest, raised, lifted = np.empty(left, np.int64), np.empty(left, np.int64), np.empty(left + 1, np.int64)
    first, last = starts[members[chosen]], ends[members[chosen]]
    count, met, i = 0, 0, 0
    while i <= left and lowest[i] < end:
        member = members[i]
        if starts[member] < last and first < ends[member]:
            lifted[met] = member
            met += i != chosen
        else:
            rest[count], raised[count] = member, lowest[i]
            count += 1
        i += 1
    rest[count : count + met], raised[count : count + met] = lifted[:met], end
    rest[count + met :], raised[count + met :] = members[i:], lowest[i:]
    return rest, raised


@compiled()
def _meets_any(one: int, others: Numbers, starts: Numbers, ends: Numbers) -> bool:
    return bool(np.any((starts[others] < ends[one]) & (starts[one] < ends[others])))


@compiled()
def _count(member: int, by: int, starts: Numbers, ends: Numbers, alive: Numbers) -> bool:
    """Add ``by`` to the number of members alive both in a section and in the one before; tell whether one became 0."""
    broken = False
    for section in range(starts[member] + 1, ends[member]):
        alive[section] += by
        broken |= alive[section] == 0
    return broken


@compiled()
def _parts(members: Numbers, starts: Numbers, ends: Numbers, joined: Numbers) -> tuple[int, Numbers]:
    """Return how many parts there are that are never alive together, and which one each member belongs to."""
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
    _NUMBERS, _NUMBERS, INT, INT, Record((*[_NUMBERS] * 4, FLOATS)), Record((INT, INT, _NUMBERS)),
    Record((_NUMBERS, _NUMBERS)), _NUMBERS, returns=INT,
)  # fmt: skip
def _place_all(
    members: Numbers,
    lowest: Numbers,
    last: int,
    last_index: int,
    tensors: Tensors,
    limits: Limits,
    rooms: Scratch,
    offsets: Numbers,
) -> int:
    """Place the members, none lower than ``last``, and return the verdict; unless found, their offsets are -1 again.

    Args:
        members: tensors left, by ascending lowest place; they are numbered in the order in which they are tried.
        last_index: number of the one placed before, at ``last``: the next one at the same offset comes later in order.
        tensors: all tensors, of which the members are some.
        limits: limits of the search; its steps are counted down.
        rooms: how many members are alive in each section and in the one before, and scratch.
        offsets: out: the offsets of the members.
    """
    starts, ends, sizes, lives, weights = tensors
    capacity, order, steps = limits
    alive, scratch = rooms
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
        broken = _count(index, -1, starts, ends, alive)
        if len(rest) == 0:
            return FOUND
        verdict = IMPOSSIBLE
        if not _is_hopeless(rest, raised, starts, ends, sizes, place, capacity, scratch):
            count, part = _parts(rest, starts, ends, scratch) if broken else (1, rest)
            if count == 1:
                verdict = _place_all(rest, raised, place, index, tensors, limits, rooms, offsets)
            else:
                for number in range(count):
                    some = rest[part == number]
                    ranked = _ranked(some, starts, ends, sizes, lives, weights, order, scratch)
                    numbers = np.empty(len(sizes), np.int64)
                    numbers[ranked] = np.arange(len(ranked))
                    found = np.full(len(ranked), np.int64(-1))
                    nobody = min(-1, place)  # numba would compile a version for a literal -1, and cannot cache that
                    own = starts[ranked], ends[ranked], sizes[ranked], lives[ranked], weights[:, ranked].copy()
                    verdict = _place_all(
                        numbers[some], raised[part == number], place, nobody, own, limits, rooms, found
                    )
                    if verdict != FOUND:
                        break
                    offsets[ranked] = found
        if verdict != IMPOSSIBLE:
            return verdict
        for member in rest:  # of parts before the one that failed
            if offsets[member] >= 0:
                _count(member, 1, starts, ends, alive)
                offsets[member] = -1
        _count(index, 1, starts, ends, alive)
        offsets[index] = -1
        if not _meets_any(index, rest, starts, ends):
            # it was in nobody's way: the others fail wherever it lies, and by the order of offsets it cannot come later
            return IMPOSSIBLE
