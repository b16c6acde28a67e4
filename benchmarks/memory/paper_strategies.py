# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The strategies of Pisarchyk and Lee (2020) in the variants that yield the figures of tables 1 and 2.

Their text leaves the order of equal tensors and operators open, and in places differs from what was measured. Each
difference from :mod:`cacheinf_ros.memory` that the figures reveal is documented at the function. Strategies without
differences are taken from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from benchmarks.memory.quicksort_order import quicksort_order
from cacheinf_ros.memory import OFFSETS, SHARED_OBJECTS, Placement, TensorRecord
from cacheinf_ros.memory.offsets import fill_gaps, strip_packing_best_fit
from cacheinf_ros.memory.placement import SharedObject, in_objects
from cacheinf_ros.memory.records import breadth, positional_maxima
from cacheinf_ros.memory.strategies import Strategy


def _by_size(records: Sequence[TensorRecord]) -> list[int]:
    """Return the indices of the tensors, largest first; of equal ones, those that begin earlier come first."""
    return sorted(range(len(records)), key=lambda i: (-records[i].size, records[i].first))


def _by_breadth(records: Sequence[TensorRecord]) -> list[int]:
    """Return the indices of the tensors by breadth: algorithm 1, lines 4 to 6.

    Equal operators go in the order in which C++'s ``std::sort``, sorting from the last to the first, leaves them; of
    equal tensors the one that lives longer goes first, then the later.
    """
    # all operators, where `profiles` leaves some out: where equal ones go depends on how many there are
    operators = range(max((record.last for record in records), default=-1), -1, -1)
    backwards = [[i for i, r in enumerate(records) if r.first <= operator <= r.last] for operator in operators]
    order = quicksort_order([breadth(records, profile) for profile in backwards])
    profiles = [backwards[index] for index in reversed(order)]

    def place(index: int) -> tuple[int, int, int]:
        record = records[index]
        return -record.size, record.first - record.last, -record.first

    return list(dict.fromkeys(i for profile in profiles for i in sorted(profile, key=place)))


def greedy_by_size(records: Sequence[TensorRecord]) -> Placement:
    """Place by algorithm 2, except that a tensor takes the first suitable object.

    The first one is the largest. The text says the smallest, with which no order of equal tensors gives the paper's
     figures.
    """
    objects: list[SharedObject] = []
    object_of = [0] * len(records)
    for index in _by_size(records):
        chosen = next((i for i, shared in enumerate(objects) if shared.suits(records[index])), len(objects))
        _use(objects, chosen, records[index])
        object_of[index] = chosen
    return in_objects(objects, object_of)


def greedy_by_breadth(records: Sequence[TensorRecord]) -> Placement:
    """Place by algorithm 1, lines 7 to 33: in the smallest object that is large enough, or else in the largest."""
    objects: list[SharedObject] = []
    object_of = [0] * len(records)
    for index in _by_breadth(records):
        size = records[index].size
        suitable = [i for i, shared in enumerate(objects) if shared.suits(records[index])]
        large = [i for i in suitable if objects[i].size >= size]
        if large:
            chosen = min(large, key=lambda i: objects[i].size)
        else:
            chosen = max(suitable, key=lambda i: objects[i].size, default=len(objects))
        _use(objects, chosen, records[index])
        object_of[index] = chosen
    return in_objects(objects, object_of)


def greedy_by_size_improved(records: Sequence[TensorRecord]) -> Placement:
    """Place by section 4.4, with what the paper's figures show beyond the text.

    A stage holds all sizes above the next positional maximum; in it, tensors that no object suits go first, and an
    object's idle time before a use that is already placed counts before its idle time after one.
    """
    maxima = positional_maxima(records)
    waiting = set(range(len(records)))
    objects: list[SharedObject] = []
    object_of = [0] * len(records)
    while waiting:
        stage = max(_stage(records[i].size, maxima) for i in waiting)
        candidates = [i for i in sorted(waiting) if _stage(records[i].size, maxima) == stage]
        idle = {i: min(_idle(objects, records[i]), default=None) for i in candidates}
        index = min(candidates, key=lambda i: (idle[i] or (), -records[i].size, records[i].first))
        nearest = idle[index]
        chosen = len(objects) if nearest is None else nearest[-1]
        _use(objects, chosen, records[index])
        object_of[index] = chosen
        waiting.remove(index)
    return in_objects(objects, object_of)


def _stage(size: int, maxima: Sequence[int]) -> int:
    """Return the smallest positional maximum that is at least ``size``."""
    return min(maximum for maximum in maxima if maximum >= size)


def _idle(objects: Sequence[SharedObject], record: TensorRecord) -> Iterable[tuple[bool, int, int]]:
    """Yield (whether the nearest use is before the tensor, operators between, object) for every suitable object."""
    for number, shared in enumerate(objects):
        if shared.suits(record):
            yield (
                *min(
                    (first < record.first, max(first - record.last, record.first - last)) for first, last in shared.uses
                ),
                number,
            )


def _use(objects: list[SharedObject], chosen: int, record: TensorRecord) -> None:
    if chosen == len(objects):
        objects.append(SharedObject())
    objects[chosen].use(record)


def offsets_by_size(records: Sequence[TensorRecord]) -> Placement:
    """Place by algorithm 3."""
    return fill_gaps(records, _by_size(records))


def offsets_by_breadth(records: Sequence[TensorRecord]) -> Placement:
    """Place by section 5.3."""
    return fill_gaps(records, _by_breadth(records))


PAPER_SHARED_OBJECTS: Mapping[str, Strategy] = MappingProxyType(
    {
        "greedy_by_size": greedy_by_size,
        "greedy_by_size_improved": greedy_by_size_improved,
        "greedy_by_breadth": greedy_by_breadth,
        "greedy_in_order": SHARED_OBJECTS["greedy_in_order"],
        "min_cost_flow": SHARED_OBJECTS["min_cost_flow"],
    }
)
PAPER_OFFSETS: Mapping[str, Strategy] = MappingProxyType(
    {
        "greedy_by_size": offsets_by_size,
        "greedy_by_breadth": offsets_by_breadth,
        "greedy_in_order": OFFSETS["greedy_in_order"],
        "strip_packing_best_fit": partial(strip_packing_best_fit, largest_first=False),
    }
)
