# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Changes ``server.policy`` of working robots, as a user of rqt does, so that the server's places change hands."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from cacheinf_ros.harness.soaked_node import SoakedRobot
from cacheinf_ros.nodes.robot_station import RobotStation
from cacheinf_ros.offload_policy import OffloadPolicy

DONE = "done"


class PolicyChanges:
    """Changes the policy of randomly drawn robots.

    Attributes:
        answers: how often nodes answered :data:`DONE`, or refused for which reason.
    """

    def __init__(self, station: RobotStation, robots: Sequence[SoakedRobot], seed: int) -> None:
        self.answers: Counter[str] = Counter()
        self._station = station
        self._robots = robots
        self._random = random.Random(seed)

    def change(self) -> None:
        """Change the policy of one robot; nothing happens where it does not work at present."""
        robot, policy = self._random.choice(self._robots), self._random.choice(list(OffloadPolicy))
        if robot.is_up:
            self._station.tune(f"/{robot.full_name}", "server.policy", policy.value, self._count)

    def _count(self, refusal: str) -> None:
        self.answers[refusal or DONE] += 1
