# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's session in which a server computes whole frames, each from its picture alone.

A frame that is lost or late ends nothing: no end relies on what the other has.
"""

from __future__ import annotations

import threading
import time

from cacheinf_ros.offload.protocol.frames import FrameSession, OffloadConfig, Ticket
from cacheinf_ros.offload.protocol.greeting import Identity, Welcome, Work
from cacheinf_ros.offload.protocol.newest import NewestContent
from cacheinf_ros.offload.protocol.packets import Channel, Kind, Packet, Send
from cacheinf_ros.offload.protocol.robot_session import NOT_YET, RobotSession, text_of

_NS_PER_S = 1e9
_LARGEST_RESULT = 2**28  # bytes


class WholeFrameSession(RobotSession):
    """Has frames of one model computed, one after the other."""

    def __init__(self, name: str, identity: Identity, config: OffloadConfig, send: Send) -> None:
        """Prepare, as :class:`RobotSession`."""
        super().__init__(name, identity, Work.FRAMES, config, send)
        self._changed = threading.Condition(self._lock)
        self._frames = FrameSession(config)
        self._results = NewestContent(Kind.RESULT, _LARGEST_RESULT)
        self._answered: tuple[Ticket, bytes] | None = None

    @property
    def complaint(self) -> str:
        """As :attr:`RobotSession.complaint`; also while answers are not waited for."""
        with self._lock:
            self._frames.expire(time.monotonic_ns())
            return self._complaint or self._frames.complaint

    def wait_until_started(self, timeout_s: float) -> None:
        """Wait until a session has started for the first time, or is known not to."""
        with self._changed:
            self._changed.wait_for(lambda: self._complaint != NOT_YET, timeout_s)

    def request(self, more_ms: float = 0.0) -> Ticket | None:
        """Ask to send a frame; None: there is no session, or it is not time to try again.

        Args:
            more_ms: for the answer, beside the deadline.
        """
        with self._lock:
            self._answered = None
            return None if self._welcome is None else self._frames.request(time.monotonic_ns(), more_ms)

    def send(self, ticket: Ticket, content: bytes) -> None:
        """Send a frame that was asked for."""
        Channel(session=self.name, epoch=self._epoch, send=self._send).put(Kind.FRAME, content, ticket.sequence)

    def result(self, ticket: Ticket) -> bytes | None:
        """Wait for what comes of a frame until its deadline; None: nothing, in time."""
        with self._changed:
            left_s = (ticket.deadline_ns - time.monotonic_ns()) / _NS_PER_S
            self._changed.wait_for(lambda: self._is_settled(ticket), max(0.0, left_s))
            self._frames.expire(time.monotonic_ns())
            if self._answered is None or self._answered[0] is not ticket:
                return None
            return self._answered[1]

    def _is_settled(self, ticket: Ticket) -> bool:
        return self._answered is not None or not self._frames.is_open(ticket)

    def _hear(self, packet: Packet) -> None:
        if packet.kind == Kind.FAILED and packet.frame:
            self._frames.receive(packet.frame, text_of(packet), time.monotonic_ns())
        elif packet.kind == Kind.RESULT:
            self._hear_result(packet)
        else:
            super()._hear(packet)
        self._changed.notify_all()

    def _hear_result(self, packet: Packet) -> None:
        self._results.deliver(packet)
        arrived = self._results.take()
        if arrived is None:
            return
        ticket = self._frames.receive(arrived.frame, "", time.monotonic_ns())
        if ticket is not None:
            self._answered = ticket, arrived.content

    def _objection(self, welcome: Welcome) -> str:
        return ""

    def _started(self) -> None:
        self._frames.start_anew()
        self._results = NewestContent(Kind.RESULT, _LARGEST_RESULT)
        self._changed.notify_all()

    def _ended(self, reason: str) -> None:
        self._frames.start_anew()
        self._changed.notify_all()
