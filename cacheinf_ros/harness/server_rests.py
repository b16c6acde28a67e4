# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Has all robots leave the server now and then: what it holds then does not depend on how many robots it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cacheinf_ros.harness.resources import ResourceWatch, Slope, slope_of
from cacheinf_ros.offload_policy import OffloadPolicy

if TYPE_CHECKING:
    from cacheinf_ros.harness.soaked_node import SoakedNode, SoakedRobot
    from cacheinf_ros.nodes.robot_station import RobotStation

_EMPTY_S = 4.0  # diagnostics come every second, and memory is freed a second after the last session's thread has ended
_LONGEST_S = 45.0  # killed robots are forgotten after a while only, and others are still starting


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The memory of the server while no robot was there.

    Attributes:
        at_s: time of the measurement, by the caller's clock.
        pid: process ID of the server.
        resident_bytes: resident memory of the server.
    """

    at_s: float
    pid: int
    resident_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """The results of the server's processes.

    Attributes:
        sessions: the largest number of sessions that one process began.
        rests: what the processes held while no robot was there.
        missed_rests: how many rests did not come about.
    """

    sessions: int = 0
    rests: list[Rest] = field(default_factory=list)
    missed_rests: int = 0

    @property
    def growth(self) -> Slope | None:
        """The slope of resident bytes over the rests of the process that has most, after warm-up; None: too few."""
        rests = of_one_process(self.rests)
        return slope_of([rest.at_s for rest in rests], [rest.resident_bytes for rest in rests])


class ServerRests:
    """Has all robots compute alone for a moment now and then, and notes what the server holds when all have left.

    Attributes:
        found: the rests that came about.
        missed: how many rests did not come about within 45 s.
    """

    def __init__(
        self,
        station: RobotStation,
        resources: ResourceWatch,
        server: SoakedNode,
        robots: Sequence[SoakedRobot],
        policies: Sequence[str],
    ) -> None:
        """Begin without a rest.

        Args:
            resources: watches the server, by its full name.
            policies: ``server.policy`` of each robot, which is restored after a rest.
        """
        self.found: list[Rest] = []
        self.missed = 0
        self._station = station
        self._resources = resources
        self._server = server
        self._policies = dict(zip(robots, policies, strict=True))
        self._began_s: float | None = None
        self._empty_since_s: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether robots are to stay away from the server now."""
        return self._began_s is not None

    def begin(self, now_s: float) -> None:
        """Begin a rest, in which all robots leave; call :meth:`poll` until it is over."""
        self._began_s, self._empty_since_s = now_s, None

    def poll(self, now_s: float) -> bool:
        """Send robots away, and note what the server holds once none is there; returns whether the rest goes on."""
        if self._began_s is None:
            return False
        for robot in self._policies:
            self._tune(robot, OffloadPolicy.LOCAL.value)
        if not self._is_empty:
            self._empty_since_s = None
        elif self._empty_since_s is None:
            self._empty_since_s = now_s
        is_found = self._empty_since_s is not None and now_s - self._empty_since_s > _EMPTY_S
        if is_found:
            self._note(now_s)
        elif now_s - self._began_s <= _LONGEST_S:
            return True
        else:
            self.missed += 1
        self._began_s = None
        for robot, policy in self._policies.items():
            self._tune(robot, policy)
        return False

    @property
    def _is_empty(self) -> bool:
        return self._server.is_up and self._station.said(self._server.full_name).get("sharing robots", "0") == "0"

    def _note(self, now_s: float) -> None:
        held = self._resources.resident(self._server.full_name)
        if held is not None:
            pid, resident_bytes = held
            self.found.append(Rest(at_s=now_s, pid=pid, resident_bytes=resident_bytes))

    def _tune(self, robot: SoakedRobot, policy: str) -> None:
        if robot.is_up:
            self._station.tune(f"/{robot.full_name}", "server.policy", policy, lambda refusal: None)


def of_one_process(rests: Sequence[Rest]) -> list[Rest]:
    """Return the rests of the process that has most of them."""
    if not rests:
        return []
    ((pid, _),) = Counter(rest.pid for rest in rests).most_common(1)
    return [rest for rest in rests if rest.pid == pid]
