# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Twice as many robots as a fleet has time for: who is served, who is refused and how soon, and who comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from benchmarks.fleet.replayed_robot import Recording, ReplayedRobot
from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.offload import Identity

_FIT = 4  # number of robots that the fleet has time for
_FULL = 0.95  # of the share of the cores that may be busy: those who fit keep so much of it busy
_KNOWN_S = 3.0  # of filming, after which the fleet knows how long frames take
_LONG_S = 600.0
_ASK_S = 0.5
_PATIENCE_S = 60.0
_DEADLINES = 10  # multiple of a frame's time: the robots' deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionReport:
    """Who was served and who was refused, and how soon.

    Attributes:
        fit, asked: most robots that should be served, and number of robots that asked.
        served: number of robots that were served in the end.
        p95_ms, deadline_ms: 95th percentile of the served robots' frame times, and their deadline.
        refused_s: how long each of the other robots waited for its refusal.
        return_s: seconds from when a robot had left until a robot that had been refused was served.
    """

    fit: int
    asked: int
    served: int
    p95_ms: float
    deadline_ms: float
    refused_s: list[float]
    return_s: float


def admission(
    gateway: FleetGateway, model: Identity, recording: Recording, *, busy_ms: float, cores: float, seconds: float
) -> AdmissionReport:
    """Let as many robots film as fit, and let as many more ask.

    Args:
        gateway: the gateway of a fleet without robots, with the default rules.
        busy_ms: the time that a frame takes.
        cores: the fleet's number of cores.
        seconds: how long to film after all have asked.
    """
    hz = _FULL * FleetRules().most_busy * cores / (_FIT * 1e-3 * busy_ms)
    deadline_ms = max(200.0, _DEADLINES * busy_ms)
    names = (f"asking{number}" for number in count())

    def asking() -> tuple[ReplayedRobot, float]:
        robot = ReplayedRobot(next(names), model, recording, deadline_ms)
        took_s = robot.join(gateway)
        if not robot.ended:
            threading.Thread(target=robot.film, args=(hz, _LONG_S, time.monotonic()), daemon=True).start()
        return robot, took_s

    first = [asking()[0] for _ in range(_FIT)]
    time.sleep(_KNOWN_S)
    second = [asking() for _ in range(_FIT)]
    time.sleep(seconds)
    served = [robot for robot in (*first, *(robot for robot, _ in second)) if not robot.ended]
    if not served:
        raise LinkError(f"no robot kept its place: {first[0].ended}")
    took_ms = [took for robot in served for took in robot.took_ms]
    report = AdmissionReport(
        fit=_FIT, asked=len(first) + len(second), served=len(served), p95_ms=float(np.percentile(took_ms, 95)),
        deadline_ms=deadline_ms, refused_s=[took_s for robot, took_s in second if not robot.is_welcome],
        return_s=_return_s(served[0], (asking() for _ in count())),
    )  # fmt: skip
    for robot in served:
        robot.leave()
    return report


def _return_s(leaving: ReplayedRobot, asking: Iterator[tuple[ReplayedRobot, float]]) -> float:
    """Return the seconds from when a robot leaves until another one is served; infinite where none is."""
    leaving.leave()
    began = time.monotonic()
    for robot, _ in asking:
        waited_s = time.monotonic() - began
        if robot.is_welcome:
            robot.leave()
            return waited_s
        if waited_s > _PATIENCE_S:
            break
        time.sleep(_ASK_S)
    return float("inf")
