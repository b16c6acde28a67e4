# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A message with a frame in it, as a callback stored it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from std_msgs.msg import Header

from cacheinf_ros.nodes.conversions import header_from, stamp_ns

_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message and when it came.

    Attributes:
        message: has a header; of ROS, or as :class:`CameraMessages` reads it.
        received_ns: by :func:`time.monotonic_ns`.
    """

    message: Any
    received_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def header(self) -> Header:
        """The frame's header, to be copied to everything derived from it."""
        return header_from(self.message.header)

    @property
    def stamp_ns(self) -> int:
        """The frame's stamp in nanoseconds."""
        return stamp_ns(self.message.header)

    @property
    def age_ms(self) -> float:
        """Time since the message arrived, in milliseconds."""
        return (time.monotonic_ns() - self.received_ns) / _NS_PER_MS
