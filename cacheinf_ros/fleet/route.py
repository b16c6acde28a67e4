# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A gateway's way to a process that computes a session, or is to."""

from __future__ import annotations

from dataclasses import dataclass, field

from cacheinf_ros.fleet.frame_stream import PacketStream
from cacheinf_ros.fleet.messages import Place
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.greeting import Hello, Welcome, read_welcome, written
from cacheinf_ros.offload.protocol.packets import Assembly, Kind, cut

_STALLED_S = 3.0  # without a word of a process that has a frame: it counts as lost
_AGAIN_S = 0.3  # a robot that has not followed is welcomed again


@dataclass(slots=True, kw_only=True, eq=False)
class Route:
    """The way to a process.

    Attributes:
        epoch: from which on it computes the session.
        stream: of packets to it and back; None: not open yet.
        welcome: the answer to a greeting as it goes to the robot; empty: it has not come.
        said_s: when the robot was sent that.
        waits_since_s: since when a frame waits for a word of the process; None: none does.
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
        """Let the process prepare for an epoch that the robot is not yet in."""
        assert self.stream is not None
        self.epoch, self.welcome, self._greeted = epoch, [], None
        for packet in cut(written(hello), session=session, epoch=epoch, kind=Kind.HELLO):
            self.stream.send(packet)

    def hear_welcome(self, packet: Packet) -> Welcome | None:
        """Take a packet of the process' answer; all of it where that was the last one.

        Raises:
            LinkError: it is no welcome.
        """
        self._greeted = Assembly.of(self._greeted, packet)
        content = self._greeted.content
        if content is None:
            return None
        self._greeted = None
        return read_welcome(content)

    def is_stalled(self, now_s: float) -> bool:
        """Whether the process has said nothing for too long although it has a frame."""
        return self.waits_since_s is not None and now_s - self.waits_since_s > _STALLED_S

    def due_welcome(self, now_s: float) -> list[Packet]:
        """What the robot is to be sent again, as it has not followed; empty: nothing yet."""
        if not self.welcome or now_s - self.said_s <= _AGAIN_S:
            return []
        self.said_s = now_s
        return self.welcome

    def close(self) -> None:
        """End the stream."""
        if self.stream is not None:
            self.stream.close()
