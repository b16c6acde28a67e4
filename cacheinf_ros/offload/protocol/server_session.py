# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's session with one robot: computes its part of the robot's frames.

One thread receives, another serves. Nothing that a robot sends is executed or unpickled, and nothing is allocated
before its size has been compared with what the network makes necessary.
"""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections.abc import Callable

from cacheinf_ros.engine import PartitionWorker
from cacheinf_ros.errors import CacheinfError, MessageError
from cacheinf_ros.offload.protocol.frames import WireType
from cacheinf_ros.offload.protocol.greeting import Hello, Identity, Welcome, read_hello, written
from cacheinf_ros.offload.protocol.mailbox import Mailbox, room_for
from cacheinf_ros.offload.protocol.packets import Kind, Packet, cut
from cacheinf_ros.offload.protocol.starts import decode_start
from cacheinf_ros.offload.protocol.transfer import DONE, Send, Transfer, Wire

_IDLE_S = 0.2  # after which the serving thread looks whether it is to end
_ANEW = "the robot has started anew"
_ENDS = "the server ends"
_WIRE_TYPES = {kind.value: kind for kind in WireType}


class ServerSession:
    """Of one robot.

    Attributes:
        name: of the session.
    """

    def __init__(
        self,
        name: str,
        make_helper: Callable[[Identity], tuple[PartitionWorker, list[list[float]]]],
        send: Send,
        complain: Callable[[str], None],
    ) -> None:
        """Prepare.

        Args:
            make_helper: gives what computes the robot's model, and the profile for the robot; takes its time, and is
                called by :meth:`serve`. Raises :class:`CacheinfError` where there is no such model.
            send: takes packets for the robot; it must not wait.
            complain: takes what the server's operator should know.
        """
        self.name = name
        self._instance = secrets.token_hex(8)
        self._make_helper = make_helper
        self._send = send
        self._complain = complain
        self._changed = threading.Condition()
        self._greeting: Packet | None = None
        self._wire: Wire | None = None
        self._hello: Hello | None = None
        self._helper: PartitionWorker | None = None
        self._network = ""  # that it computes
        self._profile: list[list[float]] = []
        self._frame = 1
        self._is_open = True

    def receive(self, packet: Packet) -> None:
        """Take what came from the robot; what is damaged, late or not for this session is left out."""
        if packet.session != self.name or not packet.is_sound:
            return
        with self._changed:
            wire = self._wire
            if packet.kind == Kind.HELLO:
                if wire is not None and wire.epoch != packet.epoch:
                    wire.mailbox.close(_ANEW)
                self._greeting = packet
                self._changed.notify_all()
            elif wire is not None and packet.epoch == wire.epoch and packet.kind in (Kind.START, Kind.ROWS):
                wire.mailbox.deliver(packet)

    def serve(self) -> None:
        """Serve until :meth:`close`; whatever a robot sends, this goes on."""
        while self._is_open:
            try:
                greeting = self._next_greeting()
                if greeting is not None:
                    self._greet(greeting)
                elif self._wire is not None:
                    self._serve_frame(self._wire)
            except Exception:  # a bug must not end the session
                self._complain(traceback.format_exc())
                wire, self._wire = self._wire, None
                if wire is not None:
                    wire.put(Kind.FAILED, b"internal error of the server", self._frame)

    @property
    def is_open(self) -> bool:
        """Whether it serves, or will."""
        return self._is_open

    def close(self) -> None:
        """Let :meth:`serve` return, and the robot know."""
        with self._changed:
            self._is_open = False
            wire = self._wire
            if wire is not None:
                wire.mailbox.close(_ENDS)
            self._changed.notify_all()
        if wire is not None:
            wire.put(Kind.FAILED, _ENDS.encode(), self._frame)

    def _next_greeting(self) -> Packet | None:
        with self._changed:
            if self._greeting is None and self._wire is None:
                self._changed.wait(_IDLE_S)
            greeting, self._greeting = self._greeting, None
            return greeting

    def _greet(self, packet: Packet) -> None:
        if self._wire is not None and self._wire.epoch == packet.epoch:  # our answer was lost, or is on its way
            self._welcome(packet.epoch)
            return
        self._wire = None
        try:
            hello = read_hello(packet.data)
            wire_type = _WIRE_TYPES.get(hello.wire_type)
            if wire_type is None:
                raise MessageError(f"wire type {hello.wire_type!r}: one of {', '.join(_WIRE_TYPES)}")
            helper = self._helper_for(Identity(model=hello.model, network=hello.network))
        except CacheinfError as error:
            self._complain(str(error))
            self._answer(packet.epoch, Kind.REFUSED, str(error).encode())
            return
        helper.forget()
        wire = Wire(
            session=self.name, epoch=packet.epoch, splitting=helper.splitting, wire_type=wire_type,
            compress=hello.compress, send=self._send,
            mailbox=Mailbox(room_for(helper.splitting), len(helper.splitting.numbers)),
        )  # fmt: skip
        with self._changed:
            self._wire, self._hello, self._frame = wire, hello, 1
        self._welcome(packet.epoch)

    def _helper_for(self, asked: Identity) -> PartitionWorker:
        if self._helper is None or asked.network != self._network:
            self._helper = None  # first: there may be no memory for both
            self._helper, self._profile = self._make_helper(asked)
            self._network = asked.network
        return self._helper

    def _welcome(self, epoch: int) -> None:
        self._answer(epoch, Kind.WELCOME, written(Welcome(instance=self._instance, profile=self._profile)))

    def _serve_frame(self, wire: Wire) -> None:
        assert self._helper is not None and self._hello is not None
        try:
            content = wire.mailbox.take(self._frame, Kind.START, 0, time.monotonic() + _IDLE_S)
        except CacheinfError:
            return  # nothing came; or a greeting did
        started = time.monotonic()
        wire.put(Kind.STARTED, frame=self._frame)
        crossing = Transfer(wire, self._frame, started + self._hello.patience_ms / 1e3)
        try:
            self._helper.compute_part(decode_start(content, self._helper.splitting), crossing)
        except CacheinfError as error:
            self._helper.forget()
            self._wire = None
            wire.put(Kind.FAILED, str(error).encode(), self._frame)
            if str(error) not in (_ANEW, _ENDS):
                self._complain(f"{self.name}: {error}")
            return
        took = time.monotonic() - started
        wire.put(Kind.DONE, DONE.pack(1e3 * took, 1e3 * crossing.waited_s, crossing.last_sent), self._frame)
        self._frame += 1
        wire.mailbox.forget_before(self._frame)

    def _answer(self, epoch: int, kind: Kind, content: bytes) -> None:
        for packet in cut(content, session=self.name, epoch=epoch, kind=kind):
            self._send(packet)
