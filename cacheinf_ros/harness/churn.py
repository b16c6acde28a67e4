# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which faults befall which machine, when, and for how long: drawn from a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_LEAST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 3.0
SERVER = -1
"""The target of faults of the server; robots are numbered from 0."""


class ProcessFault(Enum):
    """What befalls a process."""

    KILLED = "killed"
    RESTARTED = "restarted"
    PAUSED = "paused"


class CameraFault(Enum):
    """What befalls a frame of a camera."""

    LOST = "lost"
    TWICE = "twice"
    REORDERED = "reordered"
    DAMAGED = "damaged"
    CLOCK_BACK = "clock set back"


class Visit(Enum):
    """What a robot does that only greets the server."""

    POLITE = "said goodbye"
    SILENT = "fell silent"
    STRANGER = "had other weights"
    NEWER = "had another version"

    @property
    def is_refused(self) -> bool:
        """Whether a server must refuse it a session, and say so."""
        return self in (Visit.STRANGER, Visit.NEWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One of a plan.

    Attributes:
        at_s: since the start.
        target: number of a robot, or :data:`SERVER`.
        lasts_s: of a pause, or until a process that ended is started again.
    """

    at_s: float
    target: int
    kind: ProcessFault
    lasts_s: float


def plan_process_faults(
    seed: int, *, duration_s: float, every_s: float, robots: Sequence[int], server_share: float
) -> list[Fault]:
    """Draw faults at random times (a Poisson process), in order of time.

    Args:
        duration_s: in which they fall.
        every_s: mean time between two.
        robots: the numbers of those that something may befall.
        server_share: the probability that it is the server.
    """
    rng = random.Random(seed)
    plan: list[Fault] = []
    at_s = rng.expovariate(1 / every_s)
    while at_s < duration_s:
        is_server = not robots or rng.random() < server_share
        plan.append(
            Fault(
                at_s=at_s,
                target=SERVER if is_server else rng.choice(robots),
                kind=rng.choice(list(ProcessFault)),
                lasts_s=rng.uniform(_LEAST_PAUSE_S, _LONGEST_PAUSE_S),
            )
        )
        at_s += rng.expovariate(1 / every_s)
    return plan


class CameraFaults:
    """Draws what befalls each frame of one camera."""

    def __init__(self, seed: int, share: float) -> None:
        """``share``: of the frames that something befalls."""
        self._random = random.Random(seed)
        self._share = share

    def draw(self) -> CameraFault | None:
        """What befalls the next frame."""
        return self._random.choice(list(CameraFault)) if self._random.random() < self._share else None
