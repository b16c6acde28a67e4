# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's session in which a server computes rows of its frames.

Both sides know what the other has of each tensor. Any irregularity ends the epoch: the current frame is computed by the
robot alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from cacheinf_ros.engine import FrameStart, PartitionSpace
from cacheinf_ros.errors import LinkError
from cacheinf_ros.offload.protocol.frames import OffloadConfig
from cacheinf_ros.offload.protocol.greeting import Identity, Welcome, Work
from cacheinf_ros.offload.protocol.link_estimate import LEAST_BYTES, LinkEstimate
from cacheinf_ros.offload.protocol.mailbox import Mailbox, room_for
from cacheinf_ros.offload.protocol.packets import Kind, Packet, Send, cut
from cacheinf_ros.offload.protocol.peer import Choose, Frame, FramePeer
from cacheinf_ros.offload.protocol.robot_session import RobotSession
from cacheinf_ros.offload.protocol.schedule_request import ANSWERS, ScheduleRequest
from cacheinf_ros.offload.protocol.server_profile import profile_objection
from cacheinf_ros.offload.protocol.starts import encode_start
from cacheinf_ros.offload.protocol.transfer import Served, Wire

_CATCH_UP_S = 30.0  # how long the server may be silent while it computes a frame that nobody waits for
_LOST_S = 2.0  # a server that greets so long after such a frame's start has lost it, as it greets between frames
_UNMEASURED_S = 1.0  # without a measurement for so long, the link may have become better


@dataclass(slots=True)
class _Sent:
    """The start of a frame that is in transit, or has arrived.

    Attributes:
        frame: the frame's number.
        size: the bytes of the start.
        at: when the start was sent, seconds.
        arrived: when the server reported its arrival, seconds; None: not yet.
    """

    frame: int
    size: int
    at: float
    arrived: float | None = None


class RowSession(RobotSession):
    """Shares frames of one model.

    Attributes:
        up, down: estimates of the link in both directions.
        served: the last frame of which the server has reported what its part took, and that time without waiting, in
            milliseconds; the server reports it after the frame has ended.
        served_ms: the sum of these times for all frames so far.
    """

    def __init__(
        self,
        name: str,
        identity: Identity,
        space: PartitionSpace,
        config: OffloadConfig,
        send: Send,
        *,
        before: RowSession | None = None,
    ) -> None:
        """Prepare, as :class:`RobotSession` does.

        Args:
            space: describes the tensors.
            before: the session, closed by now, that shared frames of the same engine before this one.
        """
        asked = replace(identity, dropped=tuple(sorted(space.dropped)), levels=space.levels_digest)
        super().__init__(name, asked, Work.ROWS, config, send, epoch=1 if before is None else before.epoch + 1)
        self.up: LinkEstimate = LinkEstimate() if before is None else before.up
        self.down: LinkEstimate = LinkEstimate() if before is None else before.down
        self.served: tuple[Frame, float] | None = None
        self.served_ms = 0.0
        self._space = space
        self._frame = 0
        self._measured = 0.0
        self._mailbox = self._new_mailbox()
        self._sent: _Sent | None = None
        self._request: ScheduleRequest | None = None
        self._is_behind = False  # whether more is new to the server than it computes within the deadline
        self._is_catching_up = False  # whether the server computes a frame that nobody waits for

    def poll(self, request: ScheduleRequest | None = None) -> None:
        """Implement :meth:`RobotSession.poll`; a request is from now on kept up to date, and sent when it is due."""
        with self._lock:
            self._request = request or self._request
            now = time.monotonic()
            if now - self._measured > _UNMEASURED_S:
                self._measured = now
                self.up.forget()
        super().poll()
        self._ask()

    def frame(self, choose: Choose) -> FramePeer | None:
        """Return the peer for one frame, or None where there is no session, or the server still catches up.

        With the first frame of an epoch everything is new to the server. Where it was too late with that frame, the
        next epoch's frames are not waited for until it has computed one of them within the deadline: otherwise, where
        the whole picture takes longer than that, no session would get beyond its first frame.

        Args:
            choose: see :meth:`RemotePeer.choose`.
        """
        with self._lock:
            self._follow()
            if self._welcome is None or self._is_catching_up:
                return None
            wire = Wire(
                session=self.name, epoch=self._epoch, space=self._space, wire_type=self._config.wire_dtype,
                compress=self._config.wire_compress, send=self._send, mailbox=self._mailbox,
            )  # fmt: skip
            patience_s = self._config.server_deadline_ms / 1e3
            return FramePeer(self, wire, choose, patience_s, is_awaited=not self._is_behind)

    def begin(self, epoch: int, start: FrameStart, *, is_awaited: bool) -> tuple[int, bytes]:
        """Take note that the start of the next frame is being sent; returns its number, and the start as bytes.

        Args:
            epoch: the epoch that the frame was begun in.
            start: the start of the frame.
            is_awaited: whether the robot waits for rows; otherwise the server only catches up, and has time for it.

        Raises:
            LinkError: the epoch has ended.
        """
        content = encode_start(start, self._space, self._config.wire_image, self._config.jpeg_quality)
        with self._lock:
            if epoch != self._epoch or self._welcome is None:
                raise LinkError(self.complaint or "the session has started anew")
            self._is_catching_up = not is_awaited
            self._frame += 1
            self._mailbox.forget_before(self._frame)
            self._sent = _Sent(self._frame, len(content), time.monotonic())
            return self._frame, content

    def late(self, frame: int, size: int) -> None:
        """Take note that no answer came for a frame, for which ``size`` bytes were sent."""
        with self._lock:
            start = self._sent
            if start is not None and start.frame == frame:
                waited_ms = 1e3 * (time.monotonic() - start.at)
                unheard = size if start.arrived is None else size - start.size
                if unheard > 0:
                    self.up.nothing_came(unheard, waited_ms)
                self._is_behind |= frame == 1 and waited_ms >= self._config.server_deadline_ms

    @property
    def _silent_s(self) -> float:
        return _CATCH_UP_S if self._is_catching_up else super()._silent_s

    def _hear(self, packet: Packet) -> None:
        if packet.kind == Kind.ROWS:
            self._mailbox.deliver(packet)
        elif packet.kind in (Kind.STARTED, Kind.DONE):
            self._measure(packet)
            if packet.kind == Kind.DONE and self._is_catching_up and self._sent and packet.frame == self._sent.frame:
                took_ms = 1e3 * (time.monotonic() - self._sent.at)
                self._is_catching_up = False
                self._is_behind &= took_ms > self._config.server_deadline_ms
        elif packet.kind in ANSWERS:
            if self._request is not None:
                self._request.hear(packet, time.monotonic())
        else:
            super()._hear(packet)

    def _objection(self, welcome: Welcome) -> str:
        return profile_objection(self._space, welcome.profile)

    def _welcomed_again(self) -> None:
        if self._is_catching_up and self._sent and time.monotonic() - self._sent.at > _LOST_S:
            self._fail("a frame, or the word that it is done, was lost")

    def _started(self) -> None:
        self._frame = 0
        if self._request is not None:
            self._request.begin_anew()

    def _ended(self, reason: str) -> None:
        self._is_catching_up = False
        self._mailbox.close(reason)
        self._mailbox = self._new_mailbox()

    def _ask(self) -> None:
        """Send the question when it is due: Send(M, T_c, U_c) of CacheInf's algorithm 1, line 2."""
        with self._lock:
            request = self._request
            if request is None or self._welcome is None or not request.is_due(time.monotonic()):
                return
            packets = list(cut(request.question, session=self.name, epoch=self._epoch, kind=Kind.SEARCH))
        for packet in packets:
            self._send(packet)

    def _new_mailbox(self) -> Mailbox:
        return Mailbox(room_for(self._space), len(self._space.numbers))

    def _measure(self, packet: Packet) -> None:
        now, start = time.monotonic(), self._sent
        if start is None or start.frame != packet.frame:
            return
        if packet.kind == Kind.STARTED and start.arrived is None:
            start.arrived = self._measured = now
            took = 1e3 * (now - start.at)
            if start.size < LEAST_BYTES:
                self.up.observe_delay(took / 2)
            self.up.observe_round_trip(took)
            self.up.observe(start.size, took - self.up.delay_ms)
        elif packet.kind == Kind.DONE and start.arrived is not None:
            served = Served.decode(packet.data)
            if served is None:
                return
            # as the server states it, but no longer than possible: a robot may pay for it
            served_ms = min(max(0.0, served.took_ms - served.waited_ms), 1e3 * (now - start.at))
            frame = packet.epoch, packet.frame
            if self.served is None or self.served[0] != frame:  # packets may come twice
                self.served_ms += served_ms
            self.served = frame, served_ms
            self.down.delay_ms = self.up.delay_ms
            self.down.observe(served.last_bytes, 1e3 * (now - start.arrived) - served.took_ms + self.down.delay_ms)
