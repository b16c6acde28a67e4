# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's session with a server: greets it, shares frames with it, and starts anew whenever anything goes wrong.

Both ends keep what they know of each other's tensors only as long as nothing is lost. Whatever irregular happens ends
the epoch: the frame at hand is computed by the robot, and with the next epoch both start from nothing.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

from cacheinf_ros.engine import FrameStart, PartitionSpace
from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.errors import LinkError, MessageError
from cacheinf_ros.offload.protocol.frames import OffloadConfig
from cacheinf_ros.offload.protocol.greeting import (
    LONGEST_GREETING,
    PROTOCOL,
    Hello,
    Identity,
    Welcome,
    read_welcome,
    written,
)
from cacheinf_ros.offload.protocol.link_estimate import LEAST_BYTES, LinkEstimate
from cacheinf_ros.offload.protocol.mailbox import Mailbox, room_for
from cacheinf_ros.offload.protocol.packets import Assembly, Kind, Packet, cut
from cacheinf_ros.offload.protocol.peer import Choose, Frame, FramePeer
from cacheinf_ros.offload.protocol.starts import encode_start
from cacheinf_ros.offload.protocol.transfer import DONE, Send, Wire

_NOT_YET = "no server has answered yet"
_QUIET_S = 1.0  # without a word of the server: it is greeted again, and answers if it is still the same
_UNMEASURED_S = 1.0  # without anything that says how fast the link is: it may have become better
_SILENT_S = 3.0  # and at least two deadlines: it is dead


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


class RobotSession:
    """Used by two threads: one receives, the other computes frames.

    Attributes:
        name: of the session.
        up, down: what is known of the link.
        complaint: why there is no server to share with; empty: there is one.
        served: the last frame of which the server has said what it took for its part, without waiting; and
            milliseconds. It says so after the frame has ended.
        served_ms: of all frames so far.
    """

    def __init__(
        self,
        name: str,
        identity: Identity,
        splitting: PartitionSpace,
        config: OffloadConfig,
        send: Send,
    ) -> None:
        self.name = name
        self.up, self.down = LinkEstimate(), LinkEstimate()
        self.complaint = _NOT_YET
        self.served: tuple[Frame, float] | None = None
        self.served_ms = 0.0
        self._splitting = splitting
        self._config = config
        self._send = send
        self._lock = threading.Lock()
        self._hello = Hello(
            protocol=PROTOCOL,
            model=identity.model,
            network=identity.network,
            wire_type=config.wire_dtype.value,
            compress=config.wire_compress,
            patience_ms=config.server_deadline_ms,
        )
        self._epoch, self._frame = 1, 0
        self._next_hello = self._heard = self._measured = 0.0
        self._greeted: Assembly | None = None
        self._welcome: Welcome | None = None
        self._mailbox = self._new_mailbox()
        self._sent: _Sent | None = None
        self._is_open = True

    @property
    def welcome(self) -> Welcome | None:
        """What the server said; None: there is no session."""
        return self._welcome

    @property
    def epoch(self) -> int:
        """How often the session has started, or tried to."""
        return self._epoch

    def poll(self) -> None:
        """To be called now and then: greets the server where there is none or where it is silent."""
        with self._lock:
            if not self._is_open:
                return
            now = time.monotonic()
            if self._welcome is not None and now - self._heard > max(_SILENT_S, self._config.server_deadline_ms / 500):
                self._fail("the server is silent")
            if now - self._measured > _UNMEASURED_S:
                self._measured = now
                self.up.forget()
            if now < self._next_hello or (self._welcome is not None and now - self._heard < _QUIET_S):
                return
            self._next_hello = now + self._config.probe_s
            packets = list(cut(written(self._hello), session=self.name, epoch=self._epoch, kind=Kind.HELLO))
        for packet in packets:
            self._send(packet)

    def close(self) -> None:
        """End for good, and let the server know; by the thread that calls :meth:`poll`, so that no greeting follows."""
        with self._lock:
            self._is_open = False
            epoch = self._epoch
            self._fail("the session was closed")
        for packet in cut(b"", session=self.name, epoch=epoch, kind=Kind.BYE):
            self._send(packet)

    def receive(self, packet: Packet) -> None:
        """Take what came from the server; what is damaged, late or not ours is left out."""
        if packet.session != self.name or not packet.is_sound:
            return
        with self._lock:
            if packet.epoch != self._epoch or not self._is_open:
                return
            self._heard = time.monotonic()
            if packet.kind in (Kind.WELCOME, Kind.REFUSED):
                self._hear_greeting(packet)
            elif self._welcome is None:
                return
            elif packet.kind == Kind.ROWS:
                self._mailbox.deliver(packet)
            elif packet.kind in (Kind.STARTED, Kind.DONE):
                self._measure(packet)
            elif packet.kind == Kind.FAILED:
                self._fail(f"the server: {_text(packet.data)}")

    def frame(self, choose: Choose) -> FramePeer | None:
        """The partner for one frame; None where there is no session.

        Args:
            choose: see :meth:`RemotePeer.choose`.
        """
        with self._lock:
            if self._welcome is None:
                return None
            wire = Wire(
                session=self.name, epoch=self._epoch, splitting=self._splitting, wire_type=self._config.wire_dtype,
                compress=self._config.wire_compress, send=self._send, mailbox=self._mailbox,
            )  # fmt: skip
            return FramePeer(self, wire, choose, self._config.server_deadline_ms / 1e3)

    def fail(self, epoch: int, reason: str) -> None:
        """End an epoch, if it has not ended yet: nobody knows what the other end has."""
        with self._lock:
            if epoch == self._epoch:
                self._fail(reason)

    def encoded(self, start: FrameStart) -> bytes:
        """A frame's start as bytes."""
        return encode_start(start, self._splitting, self._config.wire_image, self._config.jpeg_quality)

    def begun(self, epoch: int, size: int) -> int:
        """Take note that the start of the next frame is on its way; the frame's number.

        Raises:
            LinkError: the epoch has ended.
        """
        with self._lock:
            if epoch != self._epoch or self._welcome is None:
                raise LinkError(self.complaint or "the session has started anew")
            self._frame += 1
            self._mailbox.forget_before(self._frame)
            self._sent = _Sent(self._frame, size, time.monotonic())
            return self._frame

    def late(self, frame: int, size: int) -> None:
        """Take note that nothing came of a frame for which so many bytes were sent."""
        with self._lock:
            start = self._sent
            if start is not None and start.frame == frame:
                self.up.nothing_came(size, 1e3 * (time.monotonic() - start.at))

    def _hear_greeting(self, packet: Packet) -> None:
        if packet.kind == Kind.REFUSED:
            self._complain(f"the server refuses: {_text(packet.data)}")
            return
        if self._greeted is None or not self._greeted.add(packet):
            self._greeted = Assembly(packet.parts)
            self._greeted.add(packet)
        if self._greeted.size > LONGEST_GREETING:
            self._greeted = None
            self._complain("the server: its greeting is too long")
            return
        content = self._greeted.content
        if content is None:
            return
        self._greeted = None
        try:
            welcome = read_welcome(content)
        except MessageError as error:
            self._complain(f"the server: {error}")
            return
        if len(welcome.profile) != len(self._splitting.heights) or not all(map(_is_curve, welcome.profile)):
            self._complain("the server's profile is not one of this network")
            return
        if self._welcome is None:
            self._welcome, self.complaint, self._frame = welcome, "", 0
        elif self._welcome.instance != welcome.instance:
            self._fail("the server has started anew")

    def _new_mailbox(self) -> Mailbox:
        return Mailbox(room_for(self._splitting), len(self._splitting.numbers))

    def _complain(self, reason: str) -> None:
        """No session can start for a reason; one that there is ends."""
        if self._welcome is not None:
            self._fail(reason)
        self.complaint = reason

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
        elif packet.kind == Kind.DONE and start.arrived is not None and len(packet.data) == DONE.size:
            took, waited, size = DONE.unpack(packet.data)
            if not (math.isfinite(took) and math.isfinite(waited)):
                return
            # by its own account, but no longer than it can have been: a robot may pay for it
            served_ms = min(max(0.0, took - waited), 1e3 * (now - start.at))
            frame = packet.epoch, packet.frame
            if self.served is None or self.served[0] != frame:  # packets may come twice
                self.served_ms += served_ms
            self.served = frame, served_ms
            self.down.delay_ms = self.up.delay_ms
            self.down.observe(size, 1e3 * (now - start.arrived) - took + self.down.delay_ms)

    def _fail(self, reason: str) -> None:
        self._mailbox.close(reason)
        self._mailbox = self._new_mailbox()
        self._welcome, self._greeted, self.complaint = None, None, reason
        self._epoch += 1
        self._next_hello = time.monotonic() + self._config.probe_s


def _is_curve(took_ms: list[float]) -> bool:
    return len(took_ms) == len(POINTS) and all(0 <= value < 1e9 for value in took_ms)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")[:500]
