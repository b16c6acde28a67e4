# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's session in which a server computes whole frames, each from its image alone.

A frame that is lost or late does not end the session, because neither side relies on what the other side has.
"""

from __future__ import annotations

import threading
import time

from cacheinf_ros.offload.protocol.frames import FrameSession, OffloadConfig, Ticket
from cacheinf_ros.offload.protocol.greeting import Identity, Welcome, Work
from cacheinf_ros.offload.protocol.newest import NewestContent
from cacheinf_ros.offload.protocol.packets import Channel, Kind, Packet, Send, text_of
from cacheinf_ros.offload.protocol.robot_session import NOT_YET, RobotSession, greeting_fields

_NS_PER_S = 1e9
_BESIDE_OUTPUTS = 2**22  # bytes of classes, boxes and their shapes in a result
_RENEWED_AFTER = 3  # failures in a row


class WholeFrameSession(RobotSession):
    """Has frames of one model computed, one after the other."""

    def __init__(
        self, name: str, identity: Identity, config: OffloadConfig, send: Send, *, most_output_bytes: int = 2**28
    ) -> None:
        """Prepare, as :class:`RobotSession` does.

        Args:
            most_output_bytes: the limit for the outputs in a result.
        """
        super().__init__(name, identity, Work.FRAMES, config, send)
        self._changed = threading.Condition(self._lock)
        self._frames = FrameSession(config)
        self._most_output_bytes = most_output_bytes
        self._results = self._new_results()
        self._answered: tuple[Ticket, bytes] | None = None
        self._renewed_at = 0  # the number of failures at which the session last started anew
        self._renewed_of: str | None = None  # the instance of the server that failed, while the next epoch begins

    def poll(self) -> None:
        """Implement :meth:`RobotSession.poll`; after some failures in a row both sides start anew.

        That clears states in which one side waits for something that the other never sends. The server still counts as
        failing.
        """
        with self._lock:
            self._frames.expire(time.monotonic_ns())
            failures = self._frames.failures
            self._renewed_at = min(self._renewed_at, failures)
            if self._welcome is not None and failures >= self._renewed_at + _RENEWED_AFTER:
                self._renewed_at, self._renewed_of = failures, self._welcome.instance
                self._fail(self._frames.complaint)
        super().poll()

    def change(self, identity: Identity) -> None:
        """Have another model computed from now on, in the place that the session has at the server.

        The server gives up the model before, and then loads this one, so that none is computed for a while. Where it
        refuses this one it keeps the place, and the session may change again.
        """
        with self._lock:
            self._hello = self._hello.model_copy(update=greeting_fields(identity))
            self._fail(NOT_YET)
            self._next_hello, self._refusals = 0.0, 0

    @property
    def complaint(self) -> str:
        """Why frames are not sent or answers not waited for; empty where they are."""
        with self._lock:
            self._frames.expire(time.monotonic_ns())
            return self._complaint or self._frames.complaint

    def wait_until_started(self, timeout_s: float) -> None:
        """Wait until a session has started for the first time, or cannot start."""
        with self._changed:
            self._changed.wait_for(lambda: self._complaint != NOT_YET, timeout_s)

    def request(self, more_ms: float = 0.0) -> Ticket | None:
        """Ask to send a frame; returns None where there is no session, or it is not yet time to try again.

        Args:
            more_ms: time for the answer beyond the deadline.
        """
        with self._lock:
            self._answered = None
            return None if self._welcome is None else self._frames.request(time.monotonic_ns(), more_ms)

    def send(self, ticket: Ticket, content: bytes) -> None:
        """Send a frame for which a ticket was given."""
        Channel(session=self.name, epoch=self._epoch, send=self._send).put(Kind.FRAME, content, ticket.sequence)

    def result(self, ticket: Ticket) -> bytes | None:
        """Wait for the result of a frame until its deadline; returns None where none comes in time."""
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
        if packet.frame != self._frames.open_sequence:
            return  # late, or of a frame that was never sent: it must not replace the awaited one
        self._results.deliver(packet)
        if self._results.too_large == packet.frame:
            reason = f"outputs of more than {self._most_output_bytes} bytes: set max_output_bytes here to the server's"
            self._frames.receive(packet.frame, reason, time.monotonic_ns())
            return
        arrived = self._results.take()
        if arrived is None:
            return
        ticket = self._frames.receive(arrived.frame, "", time.monotonic_ns())
        if ticket is not None:
            self._answered = ticket, arrived.content

    @property
    def _silent_s(self) -> float:
        # a server that has to load the model first answers no greeting until it has
        return max(super()._silent_s, self._frames.allowed_ms / 1e3)

    def _objection(self, welcome: Welcome) -> str:
        return ""

    def _started(self) -> None:
        is_same = self._welcome is not None and self._renewed_of == self._welcome.instance
        self._begin_anew(keeps_failures=is_same)
        self._renewed_of = None
        self._results = self._new_results()
        self._changed.notify_all()

    def _ended(self, reason: str) -> None:
        self._begin_anew(keeps_failures=self._renewed_of is not None)
        self._changed.notify_all()

    def _begin_anew(self, *, keeps_failures: bool) -> None:
        if keeps_failures:
            self._frames.give_up()
        else:
            self._frames.start_anew()

    def _new_results(self) -> NewestContent:
        return NewestContent(Kind.RESULT, self._most_output_bytes + _BESIDE_OUTPUTS)
