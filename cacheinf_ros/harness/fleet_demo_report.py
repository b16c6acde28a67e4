# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The results of a demonstration of a fleet, beside what is required."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from cacheinf_ros.harness.frame_ledger import Fate

_BESIDE_MS = 100.0  # that a frame may take in addition to dense execution where its session was lost


class Phase(Enum):
    """What happened to the fleet at the time when a frame was sent."""

    STEADY = "steady"
    KILLED = "a node was killed"
    DRAINED = "a node was drained"


@dataclass(slots=True, kw_only=True)
class RobotReport:
    """The results of one robot's frames.

    Attributes:
        shared, alone, late: frames by phase: computed by the fleet, by the robot, and by the fleet but too late.
        slowest_ms: latency of its slowest frame, by phase.
    """

    shared: Counter[Phase] = field(default_factory=Counter)
    alone: Counter[Phase] = field(default_factory=Counter)
    late: Counter[Phase] = field(default_factory=Counter)
    slowest_ms: dict[Phase, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A figure and its upper limit."""

    what: str
    found: float
    limit: float

    @property
    def is_met(self) -> bool:
        """Whether the figure is within its limit."""
        return self.found <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The results of a demonstration.

    Attributes:
        sent: number of frames, all of which have to be answered.
        same_bits: number of right results that equal those of dense execution in every bit.
        dense_ms: time of a frame that a robot computes densely and alone, before anything else runs.
        gateways: number of sessions of each gateway, before anything happens.
        latencies_ms: latencies of all frames, by phase.
        counts: counts of the fleet, see :class:`~cacheinf_ros.fleet.status.FleetStatus`.
    """

    robots: list[RobotReport]
    sent: int
    fates: Counter[Fate]
    same_bits: int
    dense_ms: float
    gateways: dict[str, int]
    latencies_ms: dict[Phase, list[float]]
    counts: dict[str, int]

    @property
    def requirements(self) -> list[Requirement]:
        """The requirements of the phases that took place."""
        robots = self.robots
        found = [
            Requirement(what=f"frames {fate.value}", found=self.fates[fate], limit=0)
            for fate in (*filter(lambda fate: fate.is_fault, Fate), Fate.STATED)
        ]
        not_same = self.fates[Fate.RIGHT] - self.same_bits
        found.append(Requirement(what="right results that differ from dense in a bit", found=not_same, limit=0))
        if self.latencies_ms[Phase.KILLED]:
            lost = [robot.alone[Phase.KILLED] + robot.late[Phase.KILLED] for robot in robots]
            slowest = [robot.slowest_ms[Phase.KILLED] for robot in robots if Phase.KILLED in robot.slowest_ms]
            found += [
                Requirement(what="frames of a robot alone or late as a node was killed", found=max(lost), limit=1),
                Requirement(
                    what="robots' slowest frames then, p95, ms: dense + 100",
                    found=float(np.percentile(slowest, 95)), limit=self.dense_ms + _BESIDE_MS,
                ),
            ]  # fmt: skip
        if frames := len(self.latencies_ms[Phase.DRAINED]):
            alone = sum(robot.alone[Phase.DRAINED] for robot in robots)
            found.append(Requirement(what=f"frames alone of {frames} while nodes were drained", found=alone, limit=0))
        return found

    @property
    def figures(self) -> dict[str, Any]:
        """All figures for a JSON file."""
        return {
            "requirements": [
                {"what": each.what, "found": each.found, "limit": each.limit, "is_met": each.is_met}
                for each in self.requirements
            ],
            "sent": self.sent,
            "fates": {fate.name.lower(): count for fate, count in self.fates.items()},
            "same_bits": self.same_bits,
            "dense_ms": self.dense_ms,
            "gateways": self.gateways,
            "robots": [
                {
                    phase.name.lower(): {
                        "shared": robot.shared[phase], "alone": robot.alone[phase], "late": robot.late[phase],
                        "slowest_ms": robot.slowest_ms.get(phase),
                    }
                    for phase in Phase
                }
                for robot in self.robots
            ],
            "latencies_ms": {
                phase.name.lower(): {f"p{quantile}": float(np.percentile(each, quantile)) for quantile in (50, 95, 100)}
                for phase, each in self.latencies_ms.items()
                if each
            },
            "counts": self.counts,
        }  # fmt: skip
