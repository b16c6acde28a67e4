# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which maps to keep: greedy choices, differential evolution as in the paper, annealing, and trying everything."""

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
_BROKEN = 10.0  # the least worth of a broken promise
_TINY = 1e-9  # microseconds
_MOST_FOR_EXHAUSTIVE = 10  # maps
_POPULATION = 25
_GENERATIONS = 1000
_HOT, _COLD = 0.03, 0.001  # temperatures: by how much a choice may be worse than the one it replaces, about
_SHARE_OF_ANNEALING = 0.9  # of the time; descending has the rest
_AT_ONCE = 3  # maps that one step changes, at most
_SHARE_OF_RUNS = 0.5
_LENIENT = 4.0  # what exceeds a limit by so much of it is worth that much more


class Goal(ABC):
    """What is to be as small as possible, while a promise is kept."""

    @abstractmethod
    def worth(self, found: Assessment) -> float:
        """What a choice is worth where the promise is kept: at most about 1."""

    @abstractmethod
    def excess(self, found: Assessment) -> float:
        """By how much of itself the promised limit is exceeded; 0: the promise is kept."""

    def __call__(self, found: Assessment) -> float:
        """What breaks the promise is worth more than all that keeps it."""
        excess = self.excess(found)
        return _BROKEN + excess if excess else self.worth(found)

    @abstractmethod
    def balance(self, found: Assessment) -> float:
        """What is to be small and what is limited, as if there were no limit, each over what is usual."""

    def lenient(self, found: Assessment) -> float:
        """What a choice is worth where the promise may be broken on the way to something better."""
        return self.worth(found) + _LENIENT * self.excess(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Within(Goal):
    """Wants to be as fast as possible with a cache of at most so many bytes.

    Attributes:
        microseconds: of keeping everything.
    """

    budget: int
    microseconds: float

    def worth(self, found: Assessment) -> float:
        """The time, over that of keeping everything."""
        return found.microseconds / max(self.microseconds, _TINY)

    def excess(self, found: Assessment) -> float:
        """As :meth:`Goal.excess`."""
        return max(0, found.cache_bytes - self.budget) / max(self.budget, 1)

    def balance(self, found: Assessment) -> float:
        """As :meth:`Goal.balance`."""
        return self.worth(found) + found.cache_bytes / max(self.budget, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Smallest(Goal):
    """Wants as little memory as possible, while a frame takes at most so long.

    Attributes:
        bytes: of keeping everything.
    """

    microseconds: float
    bytes: int

    def worth(self, found: Assessment) -> float:
        """The memory, over that of keeping everything."""
        return found.bytes / max(self.bytes, 1)

    def excess(self, found: Assessment) -> float:
        """As :meth:`Goal.excess`."""
        return max(0.0, found.microseconds / max(self.microseconds, _TINY) - 1)

    def balance(self, found: Assessment) -> float:
        """As :meth:`Goal.balance`."""
        return self.worth(found) + found.microseconds / max(self.microseconds, _TINY)


def greedy(assess: Assessor, goal: Goal, *, time_limit_s: float) -> Dropped:
    """Drop one map after another, always the one that takes least time for its bytes; the best state on the way,
    and what single changes make of it.

    What a map costs is found out again when its turn comes, for the others that were dropped meanwhile.
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
    """Start with nothing, keep or drop again whichever map helps the balance most; then what helps within the limit.

    Whoever starts with everything ends where the arena is as large as its fullest moment, which few single maps fill.
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
    """Differential evolution (CacheInf section 4.3.1) from a good choice, mutants of it, and random ones."""
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

    from scipy.optimize import differential_evolution  # here: it takes a while, and few search

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
    """Simulated annealing from a good choice.

    What helps is often only a change of several maps at once: the arena is as large as its fullest moment, and a map
    that leaves the cache may not fill that any more.
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
    """Maps to drop or keep at once: some that follow one another, or any."""
    count = min(len(names), int(rng.integers(1, _AT_ONCE + 1)))
    if rng.random() < _SHARE_OF_RUNS:
        first = int(rng.integers(len(names) - count + 1))
        return frozenset(names[first : first + count])
    return frozenset(names[i] for i in rng.choice(len(names), size=count, replace=False))


def exhaustive(assess: Assessor, goal: Goal) -> Dropped | None:
    """The best choice of all; None where there are too many."""
    names = assess.names
    if len(names) > _MOST_FOR_EXHAUSTIVE:
        return None
    choices = (frozenset(some) for count in range(len(names) + 1) for some in combinations(names, count))
    return min(choices, key=lambda dropped: goal(assess(dropped)))


def _descended(assess: Assessor, goal: Goal, dropped: Dropped, deadline: float) -> Dropped:
    """Keep or drop one more, large ones first, as long as that helps."""
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
