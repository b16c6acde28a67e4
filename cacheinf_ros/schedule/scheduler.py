"""Chooses the split of each frame by a policy, from what is known of machines, caches and link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.engine import Outdated, Split
from cacheinf_ros.schedule.policy import OffloadPolicy
from cacheinf_ros.schedule.surgery import dnn_surgery
from cacheinf_ros.schedule.table import ScheduleTable, Surroundings, slower
from cacheinf_ros.schedule.timeline import Timeline
from cacheinf_ros.schedule.workload import Integers, Workload

_HORIZON = 30  # frames over which bringing a stale cache up to date is spread
_STAYS = 0.95  # of what the schedule in use is predicted to take another must be predicted to take, to replace it
_LEARNING = 0.1  # weight of the newest frame in how fast the machines are
_MOST_OFF = 50.0  # times slower or faster than measured


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """How a frame is to be computed.

    Attributes:
        split: None: all at the robot.
        predicted_ms: until the robot has the outputs.
        local_share: of the work, by what the robot takes for its rows and for all.
        server_ms: that the server computes.
        is_settled: whether the frame before was computed so too: both caches are as they will be.
    """

    split: Split | None
    predicted_ms: float
    local_share: float
    server_ms: float = 0.0
    is_settled: bool = False


class Scheduler:
    """Of one network, one robot and one server. Not thread-safe.

    Attributes:
        table: of schedules; None: not solved yet, and only simple ones are considered.
    """

    def __init__(self, workload: Workload, surroundings: Surroundings, table: ScheduleTable | None = None) -> None:
        self.table = table
        self._workload = workload
        self._measured = surroundings
        self._slowdown = {"robot": 1.0, "server": 1.0}
        self._whole = workload.heights[1:].copy()
        self._none = np.zeros_like(self._whole)
        self._rows = self._whole
        self._splits: dict[bytes, Split] = {}

    def choose(self, policy: OffloadPolicy, mbit_s: float, delay_ms: float, outdated: Outdated) -> Choice:
        """The split for a frame."""
        if not policy.is_cached:
            outdated = Outdated(changed=1.0, robot=1.0, server=1.0)
        around = self._around(delay_ms)
        steady = self._timeline(around, mbit_s, outdated.changed, outdated.changed)
        now = self._timeline(around, mbit_s, outdated.robot, outdated.server)
        candidates = self._candidates(policy, around, mbit_s, outdated.changed)
        costs = [_spread(steady.end(rows), now.end(rows)) for rows in candidates]
        best = int(np.argmin(costs))
        used = [i for i, rows in enumerate(candidates) if (rows == self._rows).all()]
        if used and costs[best] > _STAYS * costs[used[0]]:
            best = used[0]
        is_settled = bool((candidates[best] == self._rows).all())
        self._rows = candidates[best]
        return self._choice(self._rows, steady, now, is_settled)

    def observe(self, machine: str, predicted_ms: float, took_ms: float) -> None:
        """Take note of what computing took; ``machine``: robot or server."""
        if predicted_ms <= 0 or took_ms <= 0:
            return
        seen = min(max(took_ms / predicted_ms, 1 / _MOST_OFF), _MOST_OFF)
        learned = self._slowdown[machine] * seen**_LEARNING
        self._slowdown[machine] = min(max(learned, 1 / _MOST_OFF), _MOST_OFF)

    def _around(self, delay_ms: float) -> Surroundings:
        found = slower(self._measured, self._slowdown["robot"], self._slowdown["server"])
        return found.delayed(delay_ms)

    def _timeline(self, around: Surroundings, mbit_s: float, robot: float, server: float) -> Timeline:
        return Timeline(self._workload, around.conditions(self._workload, mbit_s, 1 - robot, 1 - server))

    def _candidates(
        self, policy: OffloadPolicy, around: Surroundings, mbit_s: float, changed: float
    ) -> Sequence[Integers]:
        if policy is OffloadPolicy.LOCAL:
            return [self._whole]
        if policy in (OffloadPolicy.REMOTE, OffloadPolicy.REMOTE_JPEG):
            return [self._none]
        reuse = 1 - changed
        cut = dnn_surgery(self._workload, around.conditions(self._workload, mbit_s, reuse, reuse))
        if not policy.is_searched:
            return [cut]
        simple = [self._whole, self._none, cut, self._rows]
        return simple if self.table is None else [*simple, *self.table.near(mbit_s, reuse, reuse)]

    def _choice(self, rows: Integers, steady: Timeline, now: Timeline, is_settled: bool) -> Choice:
        times = (steady if is_settled else now).times(rows)
        if (rows == self._whole).all():
            return Choice(split=None, predicted_ms=times.end, local_share=1.0, is_settled=is_settled)
        alone = steady.times(self._whole).robot_busy
        share = steady.times(rows).robot_busy / alone if alone > 0 else 1.0
        key = rows.tobytes()
        if key not in self._splits:
            self._splits[key] = self._workload.split_of(rows)
        return Choice(
            split=self._splits[key], predicted_ms=times.end, local_share=share, server_ms=times.server_busy,
            is_settled=is_settled,
        )  # fmt: skip


def _spread(steady: float, now: float) -> float:
    """What a frame costs from now on: what is made up for once counts for many."""
    return steady + max(0.0, now - steady) / _HORIZON
