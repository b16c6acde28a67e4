# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A gateway's route to a process that computes a session, or is to."""

from __future__ import annotations

from dataclasses import dataclass, field

from cacheinf_ros.fleet.frame_stream import PacketStream
from cacheinf_ros.fleet.messages import Place
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.greeting import Hello, Welcome, read_welcome, written
from cacheinf_ros.offload.protocol.packets import Assembly, Kind, cut

_STALLED_S = 3.0  # a process that has a frame counts as lost after so long a silence
_AGAIN_S = 0.3  # interval at which a welcome is repeated to a robot that has not followed


@dataclass(slots=True, kw_only=True, eq=False)
class Route:
    """The route to a process.

    Attributes:
        place: the place of the process.
        epoch: the epoch from which on the process computes the session.
        stream: the stream of packets to the process and back; None: not open yet.
        welcome: the packets of the process's welcome, as they go to the robot; empty: it has not come.
        said_s: when the robot was last sent the welcome.
        waits_since_s: time since which a frame waits for an answer of the process; None: none waits.
        is_lost: whether the process is gone, or given up.
    """

    place: Place
    epoch: int
    stream: PacketStream | None = None
    welcome: list[Packet] = field(default_factory=list)
    said_s: float = 0.0
    waits_since_s: float | None = None
    is_lost: bool = False
    _greeted: Assembly | None = None

    def greet(self, hello: Hello, session: str, epoch: int) -> None:
        """Let the process prepare for an epoch that the robot has not entered yet."""
        assert self.stream is not None
        self.epoch, self.welcome, self._greeted = epoch, [], None
        for packet in cut(written(hello), session=session, epoch=epoch, kind=Kind.HELLO):
            self.stream.send(packet)

    def hear_welcome(self, packet: Packet) -> Welcome | None:
        """Take a packet of the process's answer; returns the whole answer once it is complete, else None.

        Raises:
            LinkError: the answer is no welcome.
        """
        self._greeted = Assembly.of(self._greeted, packet)
        content = self._greeted.content
        if content is None:
            return None
        self._greeted = None
        return read_welcome(content)

    def is_stalled(self, now_s: float) -> bool:
        """Tell whether the process has a frame but has been silent for too long."""
        return self.waits_since_s is not None and now_s - self.waits_since_s > _STALLED_S

    def due_welcome(self, now_s: float) -> list[Packet]:
        """Return the welcome where it is time to send it again, as the robot has not followed; else nothing."""
        if not self.welcome or now_s - self.said_s <= _AGAIN_S:
            return []
        self.said_s = now_s
        return self.welcome

    def close(self) -> None:
        """Close the stream."""
        if self.stream is not None:
            self.stream.close()
