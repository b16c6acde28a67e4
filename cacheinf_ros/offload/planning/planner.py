# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses the partition of each frame by a policy, from what is known of machines, caches and link."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cacheinf_ros.energy import PowerModel
from cacheinf_ros.engine import Outdated, Partition
from cacheinf_ros.offload.planning.latency_model import LatencyModel
from cacheinf_ros.offload.planning.minimum_cut import dnn_surgery
from cacheinf_ros.offload.planning.plan_table import Machines, ScheduleTable
from cacheinf_ros.offload.planning.thrift import STAYS, Thrift, lighter
from cacheinf_ros.offload.planning.timeline import Timeline, Times
from cacheinf_ros.offload.planning.track_record import TrackRecord
from cacheinf_ros.offload.planning.workload import Integers, Numbers, Workload
from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.solvers import load_solvers

_HORIZON = 30  # frames over which bringing a stale cache up to date is spread
_SIMILAR = 0.2  # the largest difference of logarithms between conditions that count as the same
_CUT_FRAMES = 15  # frames for which a cut is kept
_AS_USUAL, _NOTICED_MS = 1.5, 2.0  # a settled frame takes at most this times the usual, plus milliseconds
_NEW = 0.2  # weight of a frame in the typical active shares
# amounts of the robot's overheads: for a frame alone, for a shared one, for encoding all of the input's pixels, and for
# a tensor that crosses inside the network
_ALONE = (1.0, 0.0, 0.0, 0.0)
_ROBOT_TRANSFER = (0.0, 0.0, 0.0, 1.0)
_OF_SHARED_FRAMES = (1, 2, 3)  # of these
# amounts of the server's overheads: for a frame, and for a tensor that crosses inside the network
_SERVED = (1.0, 0.0)
_SERVER_TRANSFER = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """The way in which a frame is to be computed.

    Attributes:
        partition: the rows that the robot computes; None: all of them.
        predicted_ms: the predicted time until the robot has the outputs.
        alone_ms: that time if the robot computed everything.
        slower: by which share the frame may end later than alone, to save energy.
        lead: how many times as long the best other way to divide the frame takes; infinite: there is none.
        local_share: the robot's share of the work, by what it takes for its rows and for all.
        robot_ms, server_ms: what the operators take by the machines' profiles.
        changed: the share of the input that changes from frame to frame.
        transfers: see :class:`.timeline.Times`.
        is_settled: whether the previous frame was computed in the same way, so that both caches are in a steady state.
        schedule: the rows at the robot as bytes, to tell schedules apart.
    """

    partition: Partition | None
    predicted_ms: float
    local_share: float
    alone_ms: float = 0.0
    slower: float = 0.0
    lead: float = 1.0
    robot_ms: float = 0.0
    server_ms: float = 0.0
    changed: float = 0.0
    transfers: int = 0
    is_settled: bool = False
    schedule: bytes = b""

    @property
    def robot_overheads(self) -> Sequence[float]:
        """How much of each of the robot's overheads a frame has."""
        return _ALONE if self.partition is None else _shared(self.changed, self.transfers)

    @property
    def server_overheads(self) -> Sequence[float]:
        """How much of each of the server's overheads a shared frame has."""
        return 1.0, self.transfers


def load_planner() -> None:
    """Import what planning a frame needs, numba among it; without this, the first frame that is shared would wait."""
    load_solvers()
    import cacheinf_ros.offload.planning.timeline_loop  # noqa: F401  its loop is compiled now, or read from the disk


class Scheduler:
    """Chooses schedules for one network, one robot and one server. Not thread-safe.

    Attributes:
        measured: the machines as they were measured while they had nothing else to do.
        table: solved schedules; None: not solved yet, and only simple ones are considered.
    """

    def __init__(
        self,
        workload: Workload,
        surroundings: Machines,
        table: ScheduleTable | None = None,
        *,
        robot_slowdown: float = 1.0,
        power: PowerModel | None = None,
    ) -> None:
        """Prepare.

        Args:
            workload: the network.
            surroundings: see :attr:`measured`.
            table: see :attr:`table`.
            robot_slowdown: how many times longer than measured the robot is expected to take, at first.
            power: the robot's powers; None: typical ones.
        """
        self._power = power or PowerModel()
        self.table = table
        self._workload = workload
        self.measured = surroundings
        transfer_ms = robot_slowdown * surroundings.robot_transfer_ms
        self._robot = LatencyModel((0.0, 0.0, 0.0, transfer_ms), robot_slowdown)
        self._server = LatencyModel((0.0, surroundings.server_transfer_ms))
        self._whole = workload.heights[1:].copy()
        self._none = np.zeros_like(self._whole)
        self._rows = self._whole
        self._partitions: dict[bytes, Partition] = {}
        self._is_settled = True
        self._cut: tuple[Numbers, Integers] | None = None  # the conditions that the best cut was found for, and the cut
        self._cut_age = 0  # frames
        self._typical: Numbers | None = None  # active shares of each tensor
        self._record = TrackRecord()

    def choose(
        self,
        policy: OffloadPolicy,
        mbit_s: float,
        delay_ms: float,
        outdated: Outdated,
        *,
        frames: int = 1,
        slower: float = 0.0,
    ) -> Choice:
        """Choose the partition for a frame.

        Args:
            policy: which ways to divide the frame are allowed.
            mbit_s, delay_ms: bandwidth and delay of the link.
            outdated: the pixels of the input that changed, and that each machine lacks.
            frames: how many frames have passed since the last call, this one included.
            slower: the frame may end later than the soonest by this share, where that costs the robot less energy.
        """
        changed, robot, server = self._active(outdated)
        around = self._around(delay_ms)
        steady = Timeline(self._workload, around.conditions(mbit_s, changed, changed))
        now = Timeline(self._workload, around.conditions(mbit_s, robot, server))
        candidates = self.candidates(policy, around, mbit_s, changed)
        thrift = Thrift(slower=slower, power=self._power) if slower > 0 else None
        if thrift is not None and policy.is_searched:
            candidates = [*candidates, *lighter(min(candidates, key=steady.end), self._workload.groups)]
        extra = [self._overhead_ms(rows, float(changed[0])) for rows in candidates]
        usual, at_once = ([line.end(rows) for rows in candidates] for line in (steady, now))
        ends = list(map(_spread, usual, at_once))
        costs = np.add(ends, extra) * self._record.factors([rows.tobytes() for rows in candidates])
        best = int(np.argmin(costs))
        used = next((i for i, rows in enumerate(candidates) if (rows == self._rows).all()), None)
        if thrift is not None:
            best = thrift.choose(costs.tolist(), self._joules(candidates, steady, thrift, float(changed[0])), used)
        elif used is not None and costs[best] > STAYS * costs[used]:
            best = used
        is_settled = self._is_settled and bool((candidates[best] == self._rows).all())
        self._is_settled = True
        self._rows = candidates[best]
        # one of the machines may lack much more than this frame has changed, as after an audit
        is_settled &= at_once[best] <= _AS_USUAL * usual[best] + _NOTICED_MS
        if (self._rows == self._whole).all():
            self._server.relax(frames)
            self._robot.relax_overheads(_OF_SHARED_FRAMES, frames)
        others = [costs[i] for i, rows in enumerate(candidates) if not (rows == self._rows).all()]
        choice = self._choice((steady if is_settled else now).times(self._rows), steady, extra[best], float(changed[0]))
        return replace(
            choice,
            is_settled=is_settled,
            alone_ms=now.end(self._whole) + self._overhead_ms(self._whole, float(changed[0])),
            slower=slower,
            lead=min(others, default=math.inf) / max(costs[best], 1e-6),
        )

    @property
    def state(self) -> str:
        """What has been learned of the machines, in words."""
        return f"robot {self._robot}, server {self._server}"

    def unsettle(self) -> None:
        """Take note that the last frame was not computed as chosen, so that the next one has much to make up for."""
        self._is_settled = False

    def observe_robot(self, choice: Choice, took_ms: float) -> None:
        """Take note of what the robot took for a frame, without waiting.

        Only settled frames count, because others have much to make up for.
        """
        if choice.is_settled:
            self._robot.observe(choice.robot_ms, choice.robot_overheads, took_ms)

    def observe_frame(self, choice: Choice, took_ms: float) -> None:
        """Take note of how long a frame took from its start until the robot had the outputs."""
        if choice.is_settled:
            self._record.observe(choice.schedule, choice.predicted_ms, took_ms)

    def observe_server(self, choice: Choice, took_ms: float) -> None:
        """Take note of what the server took for a shared frame."""
        if choice.is_settled:
            self._server.observe(choice.server_ms, choice.server_overheads, took_ms)

    def _around(self, delay_ms: float) -> Machines:
        """Return the machines as observed so far."""
        return replace(
            self.measured,
            robot_ms=self.measured.robot_ms * self._robot.slowdown,
            server_ms=self.measured.server_ms * self._server.slowdown,
            delay_ms=delay_ms,
            robot_transfer_ms=self._robot.overhead_ms(_ROBOT_TRANSFER),
            server_transfer_ms=self._server.overhead_ms(_SERVER_TRANSFER),
        )

    def _overhead_ms(self, rows: Integers, changed: float) -> float:
        """Return the overheads of a frame, without transfers inside the network, which the timeline has."""
        at_server = 0.0 if (rows == self._whole).all() else self._server.overhead_ms(_SERVED)
        return self._robot_overhead_ms(rows, changed) + at_server

    def _robot_overhead_ms(self, rows: Integers, changed: float) -> float:
        return self._robot.overhead_ms(_ALONE if (rows == self._whole).all() else _shared(changed))

    def _joules(
        self, candidates: Sequence[Integers], steady: Timeline, thrift: Thrift, changed: float
    ) -> Sequence[float]:
        """Return what a usual frame costs the robot's battery, for each way to divide it."""
        transfer_ms = self._robot.overhead_ms(_ROBOT_TRANSFER)
        return [
            thrift.joules(steady.times(rows), self._robot_overhead_ms(rows, changed), transfer_ms, steady.link)
            for rows in candidates
        ]

    def _active(self, outdated: Outdated) -> tuple[Numbers, Numbers, Numbers]:
        """Return the shares of each tensor, float64 [tensors], that change per frame, and that each machine lacks."""
        shares = self._workload.activity.shares
        changed = shares(outdated.changed)
        robot = changed if outdated.robot is outdated.changed else shares(outdated.robot)
        return changed, robot, shares(outdated.server)

    def candidates(
        self, policy: OffloadPolicy, around: Machines, mbit_s: float, changed: Numbers
    ) -> Sequence[Integers]:
        """List ways to divide a frame, as rows at the robot, int64 [operators], of which the best one is taken.

        Args:
            policy: which ways are allowed.
            around: the machines as observed so far.
            mbit_s: the bandwidth of the link.
            changed: float64 [tensors]: share of each tensor that changes from frame to frame.
        """
        if policy is OffloadPolicy.LOCAL:
            return [self._whole]
        if policy in (OffloadPolicy.REMOTE, OffloadPolicy.REMOTE_JPEG):
            return [self._none]
        simple = [self._whole, self._none, self.best_cut(around, mbit_s, changed), self._rows]
        if self.table is None:
            return simple
        return [*simple, *self.table.near(mbit_s, self._workload.reuse_at(changed))]

    def best_cut(self, around: Machines, mbit_s: float, changed: Numbers) -> Integers:
        """Find the best cut between layers, as rows at the robot, int64 [operators].

        That takes milliseconds, so the cut is kept for some frames, as long as machines and link stay the same.
        Therefore it is found for a typical frame: what is best for one in which nothing changes is bad for the next.

        Args:
            around: the machines as observed so far.
            mbit_s: the bandwidth of the link.
            changed: float64 [tensors]: share of each tensor that changes from frame to frame.
        """
        typical = changed if self._typical is None else self._typical + _NEW * (changed - self._typical)
        self._typical = typical
        now = np.log((mbit_s, 1 + around.delay_ms, self._robot.slowdown, self._server.slowdown))
        self._cut_age += 1
        if self._cut is None or self._cut_age >= _CUT_FRAMES or np.abs(now - self._cut[0]).max() > _SIMILAR:
            self._cut = now, dnn_surgery(self._workload, around.conditions(mbit_s, typical, typical))
            self._cut_age = 0
        return self._cut[1]

    def _choice(self, times: Times, steady: Timeline, extra_ms: float, changed: float) -> Choice:
        partition, share = None, 1.0
        if (self._rows != self._whole).any():
            alone = steady.times(self._whole).robot_busy
            share = steady.times(self._rows).robot_busy / alone if alone > 0 else 1.0
            key = self._rows.tobytes()
            if key not in self._partitions:
                self._partitions[key] = self._workload.partition_of(self._rows)
            partition = self._partitions[key]
        return Choice(
            partition=partition,
            predicted_ms=times.end + extra_ms,
            local_share=share,
            robot_ms=times.robot_busy / self._robot.slowdown,
            server_ms=times.server_busy / self._server.slowdown,
            changed=changed,
            transfers=times.transfers,
            schedule=self._rows.tobytes(),
        )


def _shared(changed: float, transfers: int = 0) -> Sequence[float]:
    return 0.0, 1.0, changed, transfers


def _spread(steady: float, now: float) -> float:
    """Return what a frame costs in the long run, with what is made up for once spread over many frames."""
    return steady + max(0.0, now - steady) / _HORIZON
