# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Schedules that are solved in advance for all conditions of link and caches (CacheInf section 4.3.2)."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

import numpy as np

from cacheinf_ros.offload.planning.partition_costs import Link
from cacheinf_ros.offload.planning.partition_search import search
from cacheinf_ros.offload.planning.timeline import Conditions, Timeline
from cacheinf_ros.offload.planning.workload import Integers, Numbers, RowWork

MBIT_S = (0.5, 2.0, 8.0, 24.0, 64.0, 200.0, 600.0)
CACHED = (0.0, 0.6, 0.9, 0.98)
"""Reuse ratios of both machines.

Where they differ, a cache is stale, for which no schedules are kept.
"""
TRANSFER_MS = 1.0
"""The time that a transfer keeps an otherwise idle machine busy, as assumed before any is seen, in ms.

See :class:`.timeline.Conditions`.
"""
_SOLVING_S = 50.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Machines:
    """The conditions of a frame that do not change from frame to frame.

    Attributes:
        robot_ms, server_ms: see :class:`.timeline.Conditions`.
        delay_ms: see :class:`.partition_costs.Link`.
        value_bytes, input_pixel_bytes, robot_transfer_ms, server_transfer_ms: see :class:`.timeline.Conditions`.
    """

    robot_ms: Numbers
    server_ms: Numbers
    delay_ms: float = 1.0
    value_bytes: float = 4.0
    input_pixel_bytes: float = 3.0
    robot_transfer_ms: float = TRANSFER_MS
    server_transfer_ms: float = TRANSFER_MS

    def conditions(self, mbit_s: float, active_robot: Numbers, active_server: Numbers) -> Conditions:
        """Return the conditions at a bandwidth; ``active_*``, float64 [tensors]: shares of pixels that are computed."""
        return Conditions(
            link=Link(mbit_s=mbit_s, delay_ms=self.delay_ms),
            robot_ms=self.robot_ms,
            server_ms=self.server_ms,
            active_robot=active_robot,
            active_server=active_server,
            value_bytes=self.value_bytes,
            input_pixel_bytes=self.input_pixel_bytes,
            robot_transfer_ms=self.robot_transfer_ms,
            server_transfer_ms=self.server_transfer_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScheduleTable:
    """The rows at the robot by bandwidth and reuse ratio.

    The paper's table has one more axis, because there the server has a reuse ratio of its own. Here both machines
    follow every frame, so that their ratios are the same; what one of them has missed is made up for once, and counts
    when a schedule is chosen.

    Attributes:
        mbit_s, reuse: the bandwidths and reuse ratios for which the table was solved, increasing.
        rows: int64 [mbit_s, reuse, operators].
    """

    mbit_s: tuple[float, ...]
    reuse: tuple[float, ...]
    rows: Integers
    _found: dict[tuple[tuple[int, ...], ...], Integers] = field(default_factory=dict, init=False, repr=False)

    def near(self, mbit_s: float, reuse: float) -> Integers:
        """Return the schedules for the nearest solved conditions, each once, int64 [schedules, operators]."""
        asked = (self.mbit_s, mbit_s), (self.reuse, reuse)
        places = tuple([_around(axis, value) for axis, value in asked])
        if places not in self._found:
            rows = [self.rows[place] for place in itertools.product(*places)]
            self._found[places] = np.unique(np.array(rows), axis=0)
        return self._found[places]


def solve(
    workload: RowWork,
    surroundings: Machines,
    mbit_s: tuple[float, ...] = MBIT_S,
    reuse: tuple[float, ...] = CACHED,
    *,
    time_limit_s: float = _SOLVING_S,
) -> ScheduleTable:
    """Fill a table; each place starts from what was found for its neighbours.

    This is ComputeSchedule of CacheInf's algorithm 2, line 3.
    """
    axes = (mbit_s, reuse)
    found = np.zeros((*map(len, axes), len(workload.groups)), np.int64)
    places = list(itertools.product(*(range(len(axis)) for axis in axes)))
    deadline = time.monotonic() + time_limit_s
    for i, place in enumerate(places):
        bandwidth, reused = (axis[at] for axis, at in zip(axes, place, strict=True))
        active = workload.active_at(reused)
        conditions = surroundings.conditions(bandwidth, active, active)
        seeds = [found[_before(place, axis)] for axis in range(len(axes)) if place[axis]]
        share = max(0.0, deadline - time.monotonic()) / (len(places) - i)
        found[place] = search(workload, Timeline(workload, conditions), seeds, time_limit_s=share)
    return ScheduleTable(mbit_s=mbit_s, reuse=reuse, rows=found)


def _around(axis: tuple[float, ...], value: float) -> tuple[int, ...]:
    """Return the indices of the points below and above a value; beyond the ends that of the nearest point."""
    above = int(np.searchsorted(axis, value))
    return tuple({max(0, above - 1), min(above, len(axis) - 1)})


def _before(place: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(at - (i == axis) for i, at in enumerate(place))
