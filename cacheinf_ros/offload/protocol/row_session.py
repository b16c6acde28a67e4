# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's session in which a server computes rows of its frames.

Both ends know what the other has of each tensor. Whatever irregular happens ends the epoch: the frame at hand is
computed by the robot alone.
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

_PREPARE_S = 30.0  # for a first frame that nobody waits for
_UNMEASURED_S = 1.0  # without anything that says how fast the link is: it may have become better


@dataclass(slots=True)
class _Sent:
    """A frame's start on its way, or there.

    Attributes:
        frame: its number.
        size: bytes.
        at: when it was sent, seconds.
        arrived: when the server said that it had come; None: not yet.
    """

    frame: int
    size: int
    at: float
    arrived: float | None = None


class RowSession(RobotSession):
    """Shares frames of one model.

    Attributes:
        up, down: what is known of the link.
        served: the last frame of which the server has said what it took for its part, without waiting; and
            milliseconds. It says so after the frame has ended.
        served_ms: of all frames so far.
    """

    def __init__(self, name: str, identity: Identity, space: PartitionSpace, config: OffloadConfig, send: Send) -> None:
        """Prepare, as :class:`RobotSession`; ``space``: what the tensors are like."""
        asked = replace(identity, dropped=tuple(sorted(space.dropped)), levels=space.levels_digest)
        super().__init__(name, asked, Work.ROWS, config, send)
        self.up, self.down = LinkEstimate(), LinkEstimate()
        self.served: tuple[Frame, float] | None = None
        self.served_ms = 0.0
        self._space = space
        self._frame = 0
        self._measured = 0.0
        self._mailbox = self._new_mailbox()
        self._sent: _Sent | None = None
        self._request: ScheduleRequest | None = None
        self._was_late = False  # with the first frame of an epoch, for which the server computes everything
        self._prepares_until = 0.0  # it computes a first frame for which nobody waits; 0: it does not

    def poll(self, request: ScheduleRequest | None = None) -> None:
        """As :meth:`RobotSession.poll`; a request is from now on kept up to date, and asked whenever that is due."""
        with self._lock:
            self._request = request or self._request
            now = time.monotonic()
            if now - self._measured > _UNMEASURED_S:
                self._measured = now
                self.up.forget()
        super().poll()
        self._ask()

    def frame(self, choose: Choose) -> FramePeer | None:
        """The partner for one frame; None where there is no session, or the server still prepares.

        A server that came too late with the first frame of an epoch, all of which has changed to it, is not waited for
        with the next first frame: where that takes longer than the deadline no session would ever get beyond it.

        Args:
            choose: see :meth:`RemotePeer.choose`.
        """
        with self._lock:
            self._follow()
            if self._is_preparing and time.monotonic() > self._prepares_until:
                self._fail("the server did not compute its first frame in time")
            if self._welcome is None or self._is_preparing:
                return None
            wire = Wire(
                session=self.name, epoch=self._epoch, space=self._space, wire_type=self._config.wire_dtype,
                compress=self._config.wire_compress, send=self._send, mailbox=self._mailbox,
            )  # fmt: skip
            is_awaited = not (self._was_late and self._frame == 0)
            return FramePeer(self, wire, choose, self._config.server_deadline_ms / 1e3, is_awaited=is_awaited)

    def begin(self, epoch: int, start: FrameStart) -> tuple[int, bytes]:
        """Take note that the start of the next frame is on its way; the frame's number, and the start as bytes.

        Raises:
            LinkError: the epoch has ended.
        """
        content = encode_start(start, self._space, self._config.wire_image, self._config.jpeg_quality)
        with self._lock:
            if epoch != self._epoch or self._welcome is None:
                raise LinkError(self.complaint or "the session has started anew")
            if self._was_late and self._frame == 0:
                self._prepares_until = time.monotonic() + _PREPARE_S
            self._frame += 1
            self._mailbox.forget_before(self._frame)
            self._sent = _Sent(self._frame, len(content), time.monotonic())
            return self._frame, content

    def late(self, frame: int, size: int) -> None:
        """Take note that nothing came of a frame for which so many bytes were sent."""
        with self._lock:
            start = self._sent
            if start is not None and start.frame == frame:
                waited_ms = 1e3 * (time.monotonic() - start.at)
                self.up.nothing_came(size, waited_ms)
                self._was_late |= frame == 1 and waited_ms >= self._config.server_deadline_ms

    @property
    def _is_preparing(self) -> bool:
        """Whether the server computes its first frame, so that others can be shared after that."""
        return self._prepares_until > 0

    def _hear(self, packet: Packet) -> None:
        if packet.kind == Kind.ROWS:
            self._mailbox.deliver(packet)
        elif packet.kind in (Kind.STARTED, Kind.DONE):
            self._measure(packet)
            if packet.kind == Kind.DONE and packet.frame == 1 and self._is_preparing:
                self._prepares_until, self._was_late = 0.0, False
        elif packet.kind in ANSWERS:
            if self._request is not None:
                self._request.hear(packet, time.monotonic())
        else:
            super()._hear(packet)

    def _objection(self, welcome: Welcome) -> str:
        return profile_objection(self._space, welcome.profile)

    def _started(self) -> None:
        self._frame = 0
        if self._request is not None:
            self._request.begin_anew()

    def _ended(self, reason: str) -> None:
        self._prepares_until = 0.0
        self._mailbox.close(reason)
        self._mailbox = self._new_mailbox()

    def _ask(self) -> None:
        """Send(M, T_c, U_c) of CacheInf's algorithm 1, line 2, where it is due."""
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
            self.up.observe(start.size, took - self.up.delay_ms)
        elif packet.kind == Kind.DONE and start.arrived is not None:
            served = Served.decode(packet.data)
            if served is None:
                return
            # by its own account, but no longer than it can have been: a robot may pay for it
            served_ms = min(max(0.0, served.took_ms - served.waited_ms), 1e3 * (now - start.at))
            frame = packet.epoch, packet.frame
            if self.served is None or self.served[0] != frame:  # packets may come twice
                self.served_ms += served_ms
            self.served = frame, served_ms
            self.down.delay_ms = self.up.delay_ms
            self.down.observe(served.last_bytes, 1e3 * (now - start.arrived) - served.took_ms + self.down.delay_ms)
