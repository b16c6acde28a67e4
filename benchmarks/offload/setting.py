# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The settings of ``cacheinf bench offload``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheinf_ros.config import Value
from cacheinf_ros.engine import Mode, matching_for
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.offload import WireImage
from cacheinf_ros.offload_policy import OffloadPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A way to compute frames with two machines.

    Attributes:
        policy: how the robot's node divides frames.
        robot, server: modes of the engines; dense means without a cache.
        parameters: parameters that the robot's node has in addition to ours.
    """

    policy: OffloadPolicy
    robot: Mode = Mode.EXACT
    server: Mode = Mode.EXACT
    parameters: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotNode:
    """The robot's node, and the environment that it is started in; see :class:`.NodeCommand`."""

    executable: str = "cached_inference"
    environment: Mapping[str, str] = field(default_factory=dict)


SYSTEMS: Mapping[str, System] = {
    "local_dense": System(policy=OffloadPolicy.LOCAL, robot=Mode.DENSE),  # what the papers call local
    "local": System(policy=OffloadPolicy.LOCAL),
    "remote": System(policy=OffloadPolicy.REMOTE),
    "remote_jpeg": System(policy=OffloadPolicy.REMOTE_JPEG, server=Mode.DENSE),
    "remote_jpeg_cached": System(policy=OffloadPolicy.REMOTE_JPEG),
    "cacheinf": System(policy=OffloadPolicy.CACHEINF),
}
ROBOT = RobotNode()
SLOWER_FOR_ENERGY = "server.slower_for_energy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The settings of a measurement.

    Attributes:
        model, weights, size: see ``cacheinf bench engine``.
        source: the source of the frames.
        frames: number of frames that count, each time the source is played.
        rounds: how often the source is played for each policy.
        systems: the systems by name, such as :data:`SYSTEMS`.
        robot: the robot's node, which runs all systems.
        robot_cores: processors' worth of time for the robot.
        server_threads: threads of the server's engine.
        schedule_s: time for the search of schedules.
        wire_image: how pixels are encoded on the wire; ``remote_jpeg`` always sends JPEG.
        threshold: matching threshold, dB, for blocks at the same place; 100: only identical ones.
    """

    model: str
    source: str
    weights: str = ""
    size: str = ""
    frames: int = 60
    rounds: int = 2
    systems: Mapping[str, System] = field(default_factory=lambda: SYSTEMS)
    robot: RobotNode = ROBOT
    robot_cores: float = 0.5
    server_threads: int = 1
    schedule_s: float = 30.0
    wire_image: WireImage = WireImage.PNG
    threshold: float = MatchingConfig().threshold

    def engine(self, **more: Any) -> dict[str, Any]:
        """Return the parameters of both nodes, with ``more`` added."""
        model = {"model": self.model, "weights": self.weights, "input_size": self.size}
        return {**model, "matcher": self.matcher, "threshold": self.threshold, **more}

    @property
    def matcher(self) -> str:
        """The matcher of systems that have no other: blocks are compared at the same place."""
        return matching_for(Mode.EXACT, threshold_db=self.threshold).matcher.value
