# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The input and the report of a simulation of a fleet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cacheinf_ros.fleet.machine_choice import FleetRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements from real machines that a simulation draws from, in milliseconds.

    Attributes:
        frame_ms: times of frames, each on a core of its own.
        dense_ms: time of a frame that has changed everywhere: the first one at a new place.
        overhead_ms: times that frames take in addition to their computation: link, gateway, wake-ups.
        start_ms: time until a new process computes.
        adopt_ms: time until a running process takes another session.
        session_mb: memory of a session, 10**6 bytes.
    """

    frame_ms: Sequence[float]
    dense_ms: float
    overhead_ms: Sequence[float]
    start_ms: float = 8000.0
    adopt_ms: float = 150.0
    session_mb: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFleet:
    """The fleet to simulate.

    Attributes:
        hz, deadline_ms: frame rate and deadline of the robots.
        fails_every_s: mean time until a machine fails; 0: machines do not fail.
        repaired_s: time until a failed machine is back.
        warm_s: time at the start that does not count.
        phases: when each robot films its first frame, as shares of the period; empty: at random times.
    """

    robots: int
    machines: int
    measured: Measured
    cores: float = 2.0
    memory_mb: float = 64_000.0
    hz: float = 2.0
    deadline_ms: float = 200.0
    seconds: float = 120.0
    warm_s: float = 30.0
    fails_every_s: float = 0.0
    repaired_s: float = 30.0
    rules: FleetRules = field(default_factory=FleetRules)
    phases: Sequence[float] = ()
    seed: int = 0


@dataclass(slots=True, kw_only=True)
class SimulationReport:
    """The results of a simulation, after the warm start.

    Attributes:
        latencies_ms: latencies of shared frames.
        shared, late, alone: number of frames shared in time, computed alone after the deadline, and computed alone
            without a place.
        refused: robots that were refused a place at least once.
        lost_by_failure: for each robot and each loss of its machine, how many frames it computed alone because of it.
        busy: share of the cores' time in which they were busy.
    """

    robots: int
    machines: int
    latencies_ms: list[float] = field(default_factory=list)
    shared: int = 0
    late: int = 0
    alone: int = 0
    refused: set[int] = field(default_factory=set)
    lost_by_failure: list[int] = field(default_factory=list)
    failures: int = 0
    moves: int = 0
    busy: float = 0.0

    @property
    def p95_ms(self) -> float:
        """The time within which 95 % of the shared frames were answered."""
        return float(np.percentile(self.latencies_ms, 95)) if self.latencies_ms else float("nan")

    @property
    def shared_share(self) -> float:
        """The share of all frames that was shared in time."""
        return self.shared / max(1, self.shared + self.late + self.alone)

    @property
    def machines_per_robot(self) -> float:
        """The cost: machines per robot, weighted with the share of its frames that is shared; infinite: none is."""
        return self.machines / (self.robots * self.shared_share) if self.shared else math.inf
