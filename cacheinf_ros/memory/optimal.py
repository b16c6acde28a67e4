# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Search for the smallest arena of all, as an anytime algorithm that starts from the best greedy placement."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.memory.placement import Placement
from cacheinf_ros.memory.placement_search import FOUND, GIVEN_UP, IMPOSSIBLE, ORDERS, Problem
from cacheinf_ros.memory.records import TensorRecord, least_for_offsets
from cacheinf_ros.memory.strategies import best_of_greedy

_STEPS = 4  # per tensor, of the first search with each order; doubled while none succeeds
_DIVE, _NOISE = 2, 0.1  # steps of a dive per tensor, and how much the keys of its order are perturbed
_DIVES = 3.0  # time for dives / time for searches

_MOST = 1000  # tensors; the memory of a search grows with their square


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The best placement found.

    Attributes:
        placement: at most as large as the best greedy one.
        least: bytes below which no placement can be.
    """

    placement: Placement
    least: int

    @property
    def is_proven(self) -> bool:
        """Whether it is proven that nothing better exists."""
        return self.placement.size == self.least


def optimal(records: Sequence[TensorRecord], *, capacity: int = 0, time_limit_s: float = 60.0) -> Optimum:
    """Place tensors in the smallest arena.

    Args:
        records: tensors to place; where more than :data:`_MOST` of them live without a moment between them at which
            nothing is alive, these are placed by the best greedy strategy.
        capacity: bytes that are enough: the search ends when everything fits into them.
        time_limit_s: duration of the search, after which the best placement so far is returned.
    """
    deadline = time.monotonic() + time_limit_s
    least, offsets = least_for_offsets(records), [0] * len(records)
    proven = least
    for group in _groups(records):  # tensors of two groups are never alive together: each group has the whole arena
        found = _smallest([records[i] for i in group], max(capacity, least), deadline)
        proven = max(proven, found.least)
        for index, offset in zip(group, found.placement.offsets, strict=True):
            offsets[index] = offset
    size = max((offset + record.size for offset, record in zip(offsets, records, strict=True)), default=0)
    return Optimum(placement=Placement(offsets=tuple(offsets), size=size), least=proven)


def _groups(records: Sequence[TensorRecord]) -> Iterator[list[int]]:
    """Yield groups of tensors' indices, separated by moments at which nothing is alive."""
    group: list[int] = []
    end = -1
    for index in sorted(range(len(records)), key=lambda i: records[i].first):
        if group and records[index].first > end:
            yield group
            group = []
        group.append(index)
        end = max(end, records[index].last)
    if group:
        yield group


def _smallest(records: Sequence[TensorRecord], enough: int, deadline: float) -> Optimum:
    """Search for the smallest placement of a group, or for one that is small enough.

    First try to reach what is enough; then halve the distance between what was found and what seems out of reach.
    """
    best, least, unit = best_of_greedy(records), least_for_offsets(records), math.gcd(*(r.size for r in records))
    enough = max(enough // unit * unit, least)  # every arena's size is a multiple of the unit
    out_of_reach, target = least - unit, enough
    if len(records) > _MOST:
        return Optimum(placement=best, least=least)
    while best.size > enough and target < best.size and time.monotonic() < deadline:
        verdict, found = _within(records, target, (time.monotonic() + deadline) / 2)
        if found is not None:
            best = found
        else:
            out_of_reach = target
            if verdict == IMPOSSIBLE:
                least = max(least, target + unit)
                enough = max(enough, least)
        target = out_of_reach + max(unit, (best.size - out_of_reach) // (2 * unit) * unit)
    return Optimum(placement=best, least=least)


def _within(records: Sequence[TensorRecord], capacity: int, deadline: float) -> tuple[int, Placement | None]:
    """Search for a placement within a capacity, by ever longer searches and by ever more dives in perturbed orders.

    Where there are many solutions, one of many short attempts is likely to fall into one; where there is none, only a
    long search says so.
    """
    steps, random = _STEPS * len(records), np.random.default_rng(0)
    problem = Problem(records)
    as_it_is = np.ones((3, len(records)))
    while True:
        started = time.monotonic()
        verdict, found = _first(problem, capacity, as_it_is, steps, deadline)
        searched = time.monotonic()
        until = min(deadline, searched + _DIVES * (searched - started))
        while verdict == GIVEN_UP and time.monotonic() < until:
            noisy = 1 + _NOISE * random.standard_normal(as_it_is.shape)
            verdict, found = _first(problem, capacity, noisy, _DIVE * len(records), deadline)
        if verdict != GIVEN_UP or time.monotonic() >= deadline:
            return verdict, found
        steps *= 2


def _first(
    problem: Problem, capacity: int, weights: NDArray[np.float64], steps: int, deadline: float
) -> tuple[int, Placement | None]:
    """Return what the search answers with the first order with which it does not give up."""
    for order in range(ORDERS):
        verdict, offsets = problem.search(capacity, order, steps, weights)
        if verdict == FOUND:
            size = int((offsets + problem.sizes).max())
            return verdict, Placement(offsets=tuple(offsets.tolist()), size=size)
        if verdict == IMPOSSIBLE or time.monotonic() >= deadline:
            return verdict, None
    return GIVEN_UP, None
