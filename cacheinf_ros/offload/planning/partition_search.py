# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Searches for the rows at the robot with which a frame ends soonest (CacheInf section 4.3.2, equation 9).

The end of the timeline is minimised. Its constraints hold by construction. A global operator is computed whole, at one
side. The robot has the picture and gets the outputs (x_1 = x_n = 1): what the server needs and finds counts as sent, so
that it may compute all operators, the first and the last included. Maps that are merged are no operators of their own
here, so that none is divided.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.offload.planning.timeline import Timeline
from cacheinf_ros.offload.planning.workload import Integers, Numbers, RowWork

_POPULATION = 30
_GENERATIONS = 10_000
_UNIFORM = tuple(i / 10 for i in range(1, 10))
_EVOLVING = 0.5  # share of the time that is spent on differential evolution


def search(
    workload: RowWork, timeline: Timeline, seeds: Sequence[Integers] = (), *, time_limit_s: float = 1.0
) -> Integers:
    """Return the best rows at the robot that are found, int64 [operators]; never worse than a simple schedule.

    Simple schedules are: all at one machine, every cut by layers in the order of execution, one share for all
    operators, and the seeds. Differential evolution starts from the best of them, as in the paper, and changes of whole
    runs of operators go on from there.
    """
    deadline = time.monotonic() + time_limit_s
    units = _Units(workload)
    candidates = [*seeds, *_simple(workload, units)]
    ends = np.array([timeline.end(rows) for rows in candidates])
    order = np.argsort(ends, kind="stable")
    best = candidates[order[0]]
    if time_limit_s <= 0:
        return best
    rng = np.random.default_rng(0)
    starts = [candidates[i] for i in order[: _POPULATION // 2]]
    evolved = _evolve(units, timeline, starts, rng, time.monotonic() + _EVOLVING * time_limit_s)
    best = min((best, evolved), key=timeline.end)
    return _changed_in_runs(units, timeline, best, rng, deadline)


class _Units:
    """What can be decided independently: the share of an operator's rows, or the side of a group.

    Attributes:
        count: the number of units.
        of: int64 [operators]: the unit that each operator belongs to.
    """

    def __init__(self, workload: RowWork) -> None:
        self._heights = workload.heights[1:]
        self._whole = workload.groups >= 0
        leaders = np.arange(len(self._heights))  # the first operator of each unit
        for group in range(workload.groups.max(initial=-1) + 1):
            members = workload.groups == group
            leaders[members] = np.argmax(members)
        self._first, self.of = np.unique(leaders, return_inverse=True)
        self.count = len(self._first)

    def rows(self, shares: Numbers) -> Integers:
        """Turn shares, float64 [units], into rows of each tensor."""
        drawn = shares[self.of]
        drawn = np.where(self._whole, np.rint(drawn), drawn)
        return np.rint(drawn * self._heights).astype(np.int64)

    def shares(self, rows: Integers) -> Numbers:
        """Turn rows of each tensor into shares, float64 [units]."""
        return np.asarray((rows / self._heights)[self._first], np.float64)


def _simple(workload: RowWork, units: _Units) -> Iterator[Integers]:
    whole = workload.heights[1:]
    operators = np.arange(len(whole))
    yield whole.copy()
    yield np.zeros_like(whole)
    for cut in range(1, len(whole)):
        for first in (True, False):
            rows = np.where((operators < cut) == first, whole, 0)
            if (units.rows(units.shares(rows)) == rows).all():  # no group is torn apart
                yield rows
    for share in _UNIFORM:
        for side in (0.0, 1.0):
            shares = np.full(units.count, share)
            shares[units.of[workload.groups >= 0]] = side
            yield units.rows(shares)


def _evolve(
    units: _Units, timeline: Timeline, starts: Sequence[Integers], rng: np.random.Generator, deadline: float
) -> Integers:
    given = np.array([units.shares(rows) for rows in starts])
    more = max(5, _POPULATION - len(given))
    mutants = given[rng.integers(len(given), size=more)]
    mutants = np.where(rng.random(mutants.shape) < 0.1, rng.random(mutants.shape), mutants)
    from scipy.optimize import differential_evolution  # late import: slow, and needed only with a server

    found = differential_evolution(
        lambda shares: timeline.end(units.rows(shares)),
        bounds=[(0, 1)] * units.count,
        init=np.vstack([given, mutants]),
        maxiter=_GENERATIONS,
        polish=False,
        rng=rng,
        callback=lambda *_, **__: time.monotonic() > deadline,
    )
    return units.rows(found.x)


def _changed_in_runs(
    units: _Units, timeline: Timeline, rows: Integers, rng: np.random.Generator, deadline: float
) -> Integers:
    """Give runs of neighbouring operators another share while that helps: changing only one seldom pays."""
    shares: NDArray[np.float64] = units.shares(rows)
    least = timeline.end(units.rows(shares))
    while time.monotonic() < deadline:
        for _ in range(100):
            first, last = np.sort(rng.integers(units.count + 1, size=2))
            changed = shares.copy()
            changed[first : last + 1] = _drawn(shares, first, rng)
            end = timeline.end(units.rows(changed))
            if end < least:
                shares, least = changed, end
    return units.rows(shares)


def _drawn(shares: Numbers, place: int, rng: np.random.Generator) -> float:
    """Draw a new share: none, all, that of another operator, one near the old one, or any."""
    kind = rng.integers(5)
    if kind < 2:
        return float(kind)
    if kind == 2:
        return float(shares[rng.integers(len(shares))])
    if kind == 3:
        return float(np.clip(shares[min(place, len(shares) - 1)] + rng.normal(0, 0.1), 0, 1))
    return float(rng.random())
