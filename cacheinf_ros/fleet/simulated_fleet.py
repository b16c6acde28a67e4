# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a simulation of a fleet is given, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cacheinf_ros.fleet.machine_choice import FleetRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured on real machines, milliseconds.

    Attributes:
        frame_ms: of frames, on a core of their own.
        dense_ms: of a frame that has changed everywhere: the first one at a new place.
        overhead_ms: of a frame, beside its computation: link, gateway, waking up.
        start_ms: until a new process computes.
        adopt_ms: until one that runs takes another session.
        session_mb: memory of a session.
    """

    frame_ms: Sequence[float]
    dense_ms: float
    overhead_ms: Sequence[float]
    start_ms: float = 8000.0
    adopt_ms: float = 150.0
    session_mb: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFleet:
    """What is simulated.

    Attributes:
        hz, deadline_ms: of the robots.
        fails_every_s: mean time until a machine fails; 0: none does.
        repaired_s: until it is back.
        warm_s: at the start, that does not count.
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
    """What came of it, after the warm start.

    Attributes:
        latencies_ms: of shared frames.
        shared, late, alone: frames in time, computed alone after the deadline, and without a place.
        refused: robots that were refused a place at least once.
        lost_by_failure: for each robot and each loss of its machine, how many frames it computed alone because of it.
        busy: share of the cores' time.
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
        """Within which 95 % of the shared frames were answered."""
        return float(np.percentile(self.latencies_ms, 95)) if self.latencies_ms else float("nan")

    @property
    def shared_share(self) -> float:
        """Which share of all frames was shared."""
        return self.shared / max(1, self.shared + self.late + self.alone)

    @property
    def machines_per_robot(self) -> float:
        """Cost: machines for each robot that is served, weighted with the share of its frames that are shared."""
        return self.machines / max(1e-9, self.robots * self.shared_share)
