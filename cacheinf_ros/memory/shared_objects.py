# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Strategies that let tensors share objects, for memories that cannot be addressed byte by byte (textures).

They are those of sections 4.2 to 4.4 of Pisarchyk and Lee (2020); ``greedy_in_order`` and ``min_cost_flow`` are those
that the authors compare with, by Lee et al., "On-Device Neural Net Inference with Mobile GPUs" (2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.memory.placement import Placement, SharedObject, in_objects
from cacheinf_ros.memory.records import TensorRecord, by_breadth, by_size, columns, positional_maxima

_NEVER = np.iinfo(np.int64).max


def naive(records: Sequence[TensorRecord]) -> Placement:
    """Give every tensor an object of its own."""
    objects = [SharedObject(size=record.size) for record in records]
    return in_objects(objects, range(len(records)))


def greedy_by_size(records: Sequence[TensorRecord]) -> Placement:
    """Assign the largest tensors first (section 4.3)."""
    return _assign(records, by_size(records), _growth_first)


def greedy_by_breadth(records: Sequence[TensorRecord]) -> Placement:
    """Assign the tensors of operators of the largest breadth first (section 4.2)."""
    return _assign(records, by_breadth(records), _growth_first)


def greedy_in_order(records: Sequence[TensorRecord]) -> Placement:
    """Assign in the order of execution: each tensor takes the free object nearest to its size (Lee et al., 2019)."""
    order = sorted(range(len(records)), key=lambda i: records[i].first)
    return _assign(records, order, _difference_first)


def _growth_first(object_size: int, size: int) -> tuple[int, int]:
    """Rank an object: the smallest one that is large enough is best, otherwise the one that grows least."""
    return int(object_size < size), abs(object_size - size)


def _difference_first(object_size: int, size: int) -> tuple[int, int]:
    return abs(object_size - size), int(object_size < size)


def _assign(
    records: Sequence[TensorRecord], order: Iterable[int], waste: Callable[[int, int], tuple[int, int]]
) -> Placement:
    """Assign to each tensor in turn the suitable object for which ``waste`` of (object's size, its own) is smallest."""
    objects: list[SharedObject] = []
    object_of = [0] * len(records)
    for index in order:
        record = records[index]
        suitable = (i for i, shared in enumerate(objects) if shared.suits(record))
        best = min(suitable, key=lambda i: waste(objects[i].size, record.size), default=len(objects))
        if best == len(objects):
            objects.append(SharedObject())
        objects[best].use(record)
        object_of[index] = best
    return in_objects(objects, object_of)


def greedy_by_size_improved(records: Sequence[TensorRecord]) -> Placement:
    """Assign in stages, by the positional maximum that a tensor is nearest below (section 4.4).

    Within a stage, the tensor that leaves its object idle for the shortest time goes first.
    """
    if not records:
        return Placement(offsets=(), size=0, objects=())
    maxima = -np.array(positional_maxima(records), np.int64)
    size, first, last = columns(records)
    stage = np.searchsorted(maxima, -size, side="right") - 1
    order = np.lexsort((-size, stage))
    gaps: list[NDArray[np.int64]] = []  # by object: operators between its nearest use and each tensor's
    objects: list[SharedObject] = []
    object_of = np.full(len(records), -1)
    for start, end in _runs(stage[order]):
        waiting = order[start:end]  # within a stage: largest first, which decides between equal gaps
        while len(waiting):
            best, chosen = _nearest(gaps, objects, waiting)
            if chosen == len(objects):
                objects.append(SharedObject())
                gaps.append(np.full(len(records), _NEVER - 1))
            index = waiting[best]
            objects[chosen].use(records[index])
            object_of[index] = chosen
            apart = np.maximum(first - last[index], first[index] - last)  # not positive: alive at once
            never = (apart <= 0) | (gaps[chosen] == _NEVER)
            gaps[chosen] = np.where(never, _NEVER, np.minimum(gaps[chosen], apart))
            waiting = np.delete(waiting, best)
    return in_objects(objects, object_of.tolist())


def _runs(values: NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    """Return (start, end) of each run of equal values."""
    starts = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return pairwise(starts)


def _nearest(
    gaps: Sequence[NDArray[np.int64]], objects: Sequence[SharedObject], waiting: NDArray[np.int64]
) -> tuple[int, int]:
    """Return (position in ``waiting``, object) of the smallest gap, of equals the largest object; or a new object."""
    if not objects:
        return 0, 0
    table = np.stack([gap[waiting] for gap in gaps])
    smallest = table.min(axis=0)
    best = int(smallest.argmin())
    if smallest[best] == _NEVER:
        return 0, len(objects)
    nearest = np.flatnonzero(table[:, best] == smallest[best])
    return best, max(nearest.tolist(), key=lambda i: objects[i].size)


def min_cost_flow(records: Sequence[TensorRecord]) -> Placement:
    """Choose which tensor each one follows in its object, so that the objects grow least in all (Lee et al., 2019).

    A tensor costs its size in a new object, or by how much it exceeds the one before it. At most one
    follows each: the flow is an assignment problem, and is solved as one.
    """
    count = len(records)
    if not count:
        return Placement(offsets=(), size=0, objects=())
    size, first, last = columns(records)
    dear = int(size.sum()) + 1
    follow = np.where(last[None, :] < first[:, None], np.maximum(0, size[:, None] - size[None, :]), dear)
    anew = np.full((count, count), dear)
    np.fill_diagonal(anew, size)
    from scipy.optimize import linear_sum_assignment  # here: it takes a while, and no engine needs it

    _, before = linear_sum_assignment(np.concatenate([follow, anew], axis=1))
    objects: list[SharedObject] = []
    object_of = [0] * count
    for index in np.argsort(first, kind="stable").tolist():
        if before[index] < count:
            object_of[index] = object_of[before[index]]
        else:
            object_of[index] = len(objects)
            objects.append(SharedObject())
        objects[object_of[index]].use(records[index])
    return in_objects(objects, object_of)
