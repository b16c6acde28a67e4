# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How frames are divided between robot and server."""

from __future__ import annotations

from enum import Enum


class OffloadPolicy(Enum):
    """Which machine computes which part of a frame."""

    LOCAL = "local"
    """The robot computes everything, with its cache."""
    REMOTE = "remote"
    """The server computes everything, with a cache of its own: the robot sends the pixels that changed."""
    REMOTE_JPEG = "remote_jpeg"
    """The server computes everything; the robot sends whole frames as JPEG."""
    CACHEINF = "cacheinf"
    """Robot and server divide the rows of each operator, with the caches of both machines (CacheInf)."""

    @property
    def divides_frames(self) -> bool:
        """Whether robot and server may both compute a part of a frame."""
        return self not in (OffloadPolicy.LOCAL, OffloadPolicy.REMOTE_JPEG)

    @property
    def sends_frames(self) -> bool:
        """Whether the robot sends whole frames, for the server to compute them from."""
        return self is OffloadPolicy.REMOTE_JPEG

    @property
    def is_searched(self) -> bool:
        """Whether the policy follows a table of schedules that must be solved first."""
        return self is OffloadPolicy.CACHEINF
