# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Searches for the maps to keep: greedily, by differential evolution as in the paper, by annealing, or exhaustively."""

from __future__ import annotations

import heapq
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.rematerialisation.assess import Assessment, Assessor

Dropped = frozenset[str]
_BROKEN = 10.0  # the least cost of a choice that exceeds the limit
_TINY = 1e-9  # microseconds
_MOST_FOR_EXHAUSTIVE = 10  # maps
_POPULATION = 25
_GENERATIONS = 1000
_HOT, _COLD = 0.03, 0.001  # first and last temperature: about how much worse than before a choice may become
_SHARE_OF_ANNEALING = 0.9  # of the time; the final descent has the rest
_AT_ONCE = 3  # maps that one step of annealing changes, at most
_SHARE_OF_RUNS = 0.5  # of the steps, which change consecutive maps
_LENIENT = 4.0  # the factor by which an excess over the limit counts as cost


class Goal(ABC):
    """A cost that is to be as small as possible, under a limit on another one."""

    @abstractmethod
    def worth(self, found: Assessment) -> float:
        """Return the cost of a choice that keeps the limit, lower being better: at most about 1."""

    @abstractmethod
    def excess(self, found: Assessment) -> float:
        """Return by which share of itself the limit is exceeded; 0: it is kept."""

    def __call__(self, found: Assessment) -> float:
        """Return the cost of a choice; one that exceeds the limit costs more than any that keeps it."""
        excess = self.excess(found)
        return _BROKEN + excess if excess else self.worth(found)

    @abstractmethod
    def balance(self, found: Assessment) -> float:
        """Return the sum of what is minimised and what is limited, each relative to its usual size, without a limit."""

    def lenient(self, found: Assessment) -> float:
        """Return the cost of a choice where the limit may be exceeded on the way to something better."""
        return self.worth(found) + _LENIENT * self.excess(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Within(Goal):
    """The goal to be as fast as possible with a cache of limited size.

    Attributes:
        budget: the most bytes of the cache.
        microseconds: the time of a frame when everything is kept.
    """

    budget: int
    microseconds: float

    def worth(self, found: Assessment) -> float:
        """Return the time relative to that of keeping everything."""
        return found.microseconds / max(self.microseconds, _TINY)

    def excess(self, found: Assessment) -> float:
        """Implement :meth:`Goal.excess` for the bytes of the cache."""
        return max(0, found.cache_bytes - self.budget) / max(self.budget, 1)

    def balance(self, found: Assessment) -> float:
        """Implement :meth:`Goal.balance`."""
        return self.worth(found) + found.cache_bytes / max(self.budget, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Smallest(Goal):
    """The goal to take as little memory as possible, with a limit on the time of a frame.

    Attributes:
        microseconds: the most time that a frame may take.
        bytes: the memory of keeping everything.
    """

    microseconds: float
    bytes: int

    def worth(self, found: Assessment) -> float:
        """Return the memory relative to that of keeping everything."""
        return found.bytes / max(self.bytes, 1)

    def excess(self, found: Assessment) -> float:
        """Implement :meth:`Goal.excess` for the time of a frame."""
        return max(0.0, found.microseconds / max(self.microseconds, _TINY) - 1)

    def balance(self, found: Assessment) -> float:
        """Implement :meth:`Goal.balance`."""
        return self.worth(found) + found.microseconds / max(self.microseconds, _TINY)


def greedy(assess: Assessor, goal: Goal, *, time_limit_s: float) -> Dropped:
    """Drop one map after another, always the one that costs the least time for its bytes.

    Returns the best choice on the way, improved by single changes. What a map costs is computed again when its turn
    comes, as others have been dropped meanwhile.
    """
    deadline = time.monotonic() + time_limit_s
    dropped: Dropped = frozenset()
    best, now = dropped, assess(dropped)
    queue = [(0.0, i, name) for i, name in enumerate(assess.names)]
    while queue and time.monotonic() < deadline:
        _, i, name = heapq.heappop(queue)
        found = assess(dropped | {name})
        price = (found.microseconds - now.microseconds) / assess.bytes_of(name)
        if queue and price > queue[0][0]:
            heapq.heappush(queue, (price, i, name))
            continue
        dropped, now = dropped | {name}, found
        if goal(now) < goal(assess(best)):
            best = dropped
    return _descended(assess, goal, best, deadline)


def from_nothing(assess: Assessor, goal: Goal, *, time_limit_s: float) -> Dropped:
    """Start with keeping nothing, and keep or drop whichever map improves the balance most, as long as one does.

    The result is then improved by single changes within the limit. A search that starts with everything gets stuck, as
    the arena is as large as its fullest moment, to which few single maps contribute.
    """
    deadline = time.monotonic() + time_limit_s
    dropped = frozenset(assess.names)
    while assess.names and time.monotonic() < deadline:
        changed = min((dropped ^ {name} for name in assess.names), key=lambda some: goal.balance(assess(some)))
        if goal.balance(assess(changed)) >= goal.balance(assess(dropped)):
            break
        dropped = changed
    return _descended(assess, goal, dropped, deadline)


def evolve(assess: Assessor, goal: Goal, start: Dropped, *, time_limit_s: float) -> Dropped:
    """Search by differential evolution (CacheInf section 4.3.1) from a good choice, mutants of it, and random ones."""
    names = assess.names
    if not names:
        return start
    deadline = time.monotonic() + time_limit_s
    rng = np.random.default_rng(0)
    given = np.array([name in start for name in names], float)
    half = (_POPULATION - 3) // 2
    mutants = np.abs(given - (rng.random((half, len(names))) < 2 / len(names)))
    others = rng.random((half, len(names))) < rng.random((half, 1))
    population = np.vstack([given, np.zeros(len(names)), np.ones(len(names)), mutants, others])

    def worth(flags: NDArray[np.float64]) -> float:
        return goal(assess(_named(names, flags)))

    from scipy.optimize import differential_evolution  # imported here, as it takes a while and is rarely needed

    found = differential_evolution(
        worth,
        bounds=[(0, 1)] * len(names),
        integrality=np.ones(len(names), bool),
        init=population,
        maxiter=_GENERATIONS,
        polish=False,
        rng=0,
        callback=lambda *_, **__: time.monotonic() > deadline,
    )
    return _named(names, found.x)


def anneal(assess: Assessor, goal: Goal, start: Dropped, *, time_limit_s: float) -> Dropped:
    """Search by simulated annealing from a good choice.

    Often only a change of several maps at once is an improvement, as the arena is as large as its fullest moment, to
    which a single map that leaves the cache may add nothing.
    """
    if not assess.names:
        return start
    names, now, best, rng = assess.names, start, start, np.random.default_rng(0)
    began = time.monotonic()
    while (passed := (time.monotonic() - began) / max(_SHARE_OF_ANNEALING * time_limit_s, _TINY)) < 1:
        changed = now ^ _drawn(names, rng)
        worse = goal.lenient(assess(changed)) - goal.lenient(assess(now))
        if worse <= 0 or rng.random() < np.exp(-worse / (_HOT * (_COLD / _HOT) ** passed)):
            now = changed
            best = min(best, now, key=lambda dropped: goal(assess(dropped)))
    return _descended(assess, goal, best, began + time_limit_s)


def _drawn(names: tuple[str, ...], rng: np.random.Generator) -> Dropped:
    """Draw the maps to drop or keep in one step: either consecutive ones, or any."""
    count = min(len(names), int(rng.integers(1, _AT_ONCE + 1)))
    if rng.random() < _SHARE_OF_RUNS:
        first = int(rng.integers(len(names) - count + 1))
        return frozenset(names[first : first + count])
    return frozenset(names[i] for i in rng.choice(len(names), size=count, replace=False))


def exhaustive(assess: Assessor, goal: Goal) -> Dropped | None:
    """Return the best choice of all; None where there are too many to try."""
    names = assess.names
    if len(names) > _MOST_FOR_EXHAUSTIVE:
        return None
    choices = (frozenset(some) for count in range(len(names) + 1) for some in combinations(names, count))
    return min(choices, key=lambda dropped: goal(assess(dropped)))


def _descended(assess: Assessor, goal: Goal, dropped: Dropped, deadline: float) -> Dropped:
    """Improve a choice by keeping or dropping single maps, large ones first, as long as that helps."""
    by_size = sorted(assess.names, key=assess.bytes_of, reverse=True)
    least, improved = goal(assess(dropped)), True
    while improved:
        improved = False
        for name in by_size:
            if time.monotonic() > deadline:
                break
            found = goal(assess(dropped ^ {name}))
            if found < least:
                dropped, least, improved = dropped ^ {name}, found, True
    return dropped


def _named(names: tuple[str, ...], flags: NDArray[np.float64]) -> Dropped:
    return frozenset(name for name, flag in zip(names, flags, strict=True) if flag > 0.5)
