# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prefers ways to divide a frame that cost the robot's battery less, as long as the frame ends about as soon.

Latency and energy are two objectives: of all ways that end within a bound of the soonest, the one of least energy is
taken (the epsilon-constraint method). Which maps are kept, and so how much memory is used, was decided before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cacheinf_ros.energy import PowerModel
from cacheinf_ros.offload.planning.partition_costs import Link
from cacheinf_ros.offload.planning.timeline import Times
from cacheinf_ros.offload.planning.workload import Integers

STAYS = 0.95
"""Hysteresis: another way to divide frames replaces the one in use if it takes at most this share."""
_PARTS = (0.75, 0.5, 0.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thrift:
    """How much time the user gives for how little energy.

    Attributes:
        slower: a frame may end later than the soonest by this share; the way in use may exceed it by the hysteresis.
        power: the robot's powers.
    """

    slower: float = 0.0
    power: PowerModel = field(default_factory=PowerModel)

    def joules(self, times: Times, beside_ms: float, transfer_ms: float, link: Link) -> float:
        """Return what a frame takes from the battery beyond what the robot draws at rest, which it draws anyway.

        Args:
            times: of the frame.
            beside_ms: what the robot computes besides its operators.
            transfer_ms: how long it is busy with a tensor that crosses inside the network.
            link: the link between the machines.
        """
        compute_ms = times.robot_busy + beside_ms + times.transfers * transfer_ms
        rate = link.bytes_per_ms
        return self.power.joules(0.0, compute_ms, times.sent / rate, times.received / rate)

    def choose(self, costs: Sequence[float], joules: Sequence[float], used: int | None) -> int:
        """Return the position of the way to take.

        Args:
            costs: what each way takes, in ms.
            joules: what each way costs the battery.
            used: the position of the one in use, which small gains do not replace; None: it is not among them.
        """
        most = (1 + self.slower) * min(costs)
        allowed = [i for i, cost in enumerate(costs) if cost <= most]
        best = min(allowed, key=lambda i: (joules[i], costs[i]))
        if used is not None and STAYS * costs[used] <= most and STAYS * joules[used] <= joules[best]:
            return used
        return best


def lighter(rows: Integers, groups: Integers) -> list[Integers]:
    """Return ways like this one in which the robot computes less, int64 [operators].

    Schedules are searched for the soonest end. Between one of them and a frame that the server computes alone there
    are others, which end a little later. Operators that only one side can compute stay where they are.
    """
    found = [np.where(groups >= 0, rows, np.rint(part * rows).astype(np.int64)) for part in _PARTS]
    return [each for each in found if (each != rows).any()]
