# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What ``cacheinf bench offload`` measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cacheinf_ros.engine import Mode, matching_for
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.offload import WireImage
from cacheinf_ros.offload_policy import OffloadPolicy

DENSE = "local_dense"
"""The robot everything, without a cache: what the papers call local."""
JPEG_CACHED = "remote_jpeg_cached"
"""As ``remote_jpeg``, where the server computes every frame from nothing, but the server has our cache."""
SYSTEMS = (DENSE, *(policy.value for policy in OffloadPolicy), JPEG_CACHED)
ALONE = (DENSE, OffloadPolicy.LOCAL.value)
"""Those without a server, whatever the link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is measured.

    Attributes:
        model, weights, size: see ``cacheinf bench engine``.
        source: of the frames.
        frames: that count, each time the source is played.
        rounds: how often it is played for each policy.
        policies: of :data:`SYSTEMS`.
        robot_cores: processors' worth of time for the robot.
        server_threads: of the server's engine.
        schedule_s: for the search of schedules.
        wire_image: how pixels cross; ``remote_jpeg`` always sends JPEG.
        threshold: of matching, dB: blocks at the same place; 100: only identical ones.
    """

    model: str
    source: str
    weights: str = ""
    size: str = ""
    frames: int = 60
    rounds: int = 2
    policies: Sequence[str] = SYSTEMS
    robot_cores: float = 0.5
    server_threads: int = 1
    schedule_s: float = 30.0
    wire_image: WireImage = WireImage.PNG
    threshold: float = MatchingConfig().threshold

    def engine(self, **more: Any) -> dict[str, Any]:
        """Parameters of both nodes."""
        model = {"model": self.model, "weights": self.weights, "input_size": self.size}
        matching = matching_for(Mode.EXACT, threshold_db=self.threshold)
        return {**model, "matcher": matching.matcher.value, "threshold": self.threshold, **more}
