# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Draws which faults strike which machine, when, and for how long, from a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

_LEAST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 3.0


class Column(Enum):
    """What a fault strikes: a column of the table of faults."""

    CAMERA = "camera"
    MATCHER = "matcher"
    INFERENCE = "inference"
    SERVER = "server"
    LINK = "link"


class ProcessFault(Enum):
    """The faults of a process, or of a link."""

    KILLED = "killed"
    RESTARTED = "restarted"
    PAUSED = "paused"
    FULL_DISK = "full disk"
    CUT = "cut"


class CameraFault(Enum):
    """The faults of a frame of a camera, or of the camera itself."""

    LOST = "lost"
    LATE = "late"
    TWICE = "twice"
    REORDERED = "reordered"
    DAMAGED = "damaged"
    CLOCK_BACK = "clock set back"
    CLOCK_AHEAD = "clock set ahead"
    RESTARTED = "restarted"
    PAUSED = "paused"


class Visit(Enum):
    """What a robot does that only greets the server."""

    POLITE = "said goodbye"
    SILENT = "fell silent"
    STRANGER = "had other weights"
    NEWER = "had another version"

    @property
    def is_refused(self) -> bool:
        """Whether a server must refuse such a robot a session, and say so."""
        return self in (Visit.STRANGER, Visit.NEWER)

    @property
    def admitted(self) -> str:
        """The name under which such visits are counted where they were given a session."""
        return f"{self.value}: had a session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a plan.

    Attributes:
        at_s: seconds since the start.
        column: what the fault strikes.
        robot: number of the robot whose matcher or inference it strikes; meaningless for server and link.
        lasts_s: how long a pause or cut lasts, or how long until a process that ended is started again.
    """

    at_s: float
    column: Column
    robot: int
    kind: ProcessFault
    lasts_s: float


def plan_process_faults(
    seed: int,
    *,
    duration_s: float,
    every_s: float,
    robots: Sequence[int],
    matchers: Collection[int],
    server_share: float,
    cut_share: float,
) -> list[Fault]:
    """Draw faults at random times (a Poisson process), in order of time.

    Args:
        duration_s: the time in which the faults fall.
        every_s: mean time between two faults.
        robots: numbers of the robots that faults may strike.
        matchers: numbers of those robots whose matcher is a process of its own, which gets half of their faults.
        server_share, cut_share: the probabilities that a fault strikes the server, and that it cuts the link.
    """
    rng = random.Random(seed)
    plan: list[Fault] = []
    at_s = rng.expovariate(1 / every_s)
    while at_s < duration_s:
        column, robot = _befallen(rng, robots, matchers, server_share, cut_share)
        kinds = [ProcessFault.CUT] if column is Column.LINK else _OF_PROCESSES
        lasts_s = rng.uniform(_LEAST_PAUSE_S, _LONGEST_PAUSE_S)
        plan.append(Fault(at_s=at_s, column=column, robot=robot, kind=rng.choice(kinds), lasts_s=lasts_s))
        at_s += rng.expovariate(1 / every_s)
    return plan


def _befallen(
    rng: random.Random, robots: Sequence[int], matchers: Collection[int], server_share: float, cut_share: float
) -> tuple[Column, int]:
    drawn = rng.random()
    if not robots or drawn < server_share:
        return Column.SERVER, 0
    if drawn < server_share + cut_share:
        return Column.LINK, 0
    robot = rng.choice(robots)
    is_matcher = robot in matchers and rng.random() < 0.5
    return Column.MATCHER if is_matcher else Column.INFERENCE, robot


_OF_PROCESSES = [kind for kind in ProcessFault if kind is not ProcessFault.CUT]


class CameraFaults:
    """Draws the fault, if any, of each frame of one camera."""

    def __init__(self, seed: int, share: float) -> None:
        """Seed the draws; ``share``: share of the frames that have a fault."""
        self._random = random.Random(seed)
        self._share = share

    def draw(self) -> CameraFault | None:
        """Return the next frame's fault; None: it has none."""
        return self._random.choice(list(CameraFault)) if self._random.random() < self._share else None
