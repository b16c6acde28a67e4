# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's session with one robot: greets it, and does what it asks for.

One thread receives, another serves. Nothing that a robot sends is executed or unpickled, and nothing is allocated
before its size has been compared with what the work makes necessary.
"""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections.abc import Callable
from typing import Protocol

from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.offload.protocol.greeting import PROTOCOL, Hello, Identity, Welcome, Work, read_hello, written
from cacheinf_ros.offload.protocol.packets import Channel, Kind, Packet, Send

IDLE_S = 0.2
"""After which the serving thread looks whether it is to end."""
_ANEW = "the robot has started anew"
_ENDS = "the server ends"
_BUG = "internal error of the server, see its log"


class Service(Protocol):
    """What is done for a robot in one epoch.

    Attributes:
        frame: with which the epoch ends where :meth:`serve` fails; 0: with none.
    """

    frame: int

    def deliver(self, packet: Packet) -> None:
        """Take a sound packet of this epoch, in the receiving thread."""
        ...

    def serve(self) -> None:
        """Serve one frame, or none where none comes for :data:`IDLE_S`; :class:`CacheinfError` ends the epoch."""
        ...

    def close(self, reason: str) -> None:
        """Let :meth:`serve` return, or fail for this reason."""
        ...


class Worker(Protocol):
    """What computes a robot's model, for as long as the robot asks for that.

    Attributes:
        profile: for the robot, see :class:`Welcome`.
    """

    profile: list[list[float]]

    def begin(self, hello: Hello, channel: Channel) -> Service:
        """Forget all that was, for a new epoch; :class:`CacheinfError` where the robot asks for what cannot be."""
        ...


class ServerSession:
    """Ends with a refusal, or when it is closed.

    Attributes:
        name: of the session.
    """

    def __init__(
        self, name: str, make_worker: Callable[[Identity, Work], Worker], send: Send, complain: Callable[[str], None]
    ) -> None:
        """Prepare.

        Args:
            make_worker: takes its time, and is called by :meth:`serve`. Raises :class:`CacheinfError` where there is no
                such model.
            send: takes packets for the robot; it must not wait.
            complain: takes what the server's operator should know.
        """
        self.name = name
        self._instance = secrets.token_hex(8)
        self._make_worker = make_worker
        self._send = send
        self._complain = complain
        self._changed = threading.Condition()
        self._greeting: Packet | None = None
        self._epoch: tuple[Channel, Service] | None = None
        self._worker: Worker | None = None
        self._asked: tuple[Identity, Work] | None = None  # of the worker
        self._is_open = True
        self._serving_since_s: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether it serves, or will."""
        return self._is_open

    @property
    def busy_s(self) -> float:
        """For how long it has been at the frame at hand; where none comes, never more than :data:`IDLE_S`."""
        since_s = self._serving_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    def receive(self, packet: Packet) -> None:
        """Take what came from the robot; what is damaged, late or not for this session is left out."""
        if packet.session != self.name or not packet.is_sound:
            return
        with self._changed:
            epoch = self._epoch
            if packet.kind == Kind.HELLO:
                if epoch is not None and epoch[0].epoch != packet.epoch:
                    epoch[1].close(_ANEW)
                self._greeting = packet
                self._changed.notify_all()
            elif epoch is not None and epoch[0].epoch == packet.epoch:
                epoch[1].deliver(packet)

    def serve(self) -> None:
        """Serve until the session ends; whatever a robot sends, this goes on.

        However it ends, the session does not count as open any more.
        """
        try:
            while self._is_open:
                try:
                    greeting = self._next_greeting()
                    if greeting is not None:
                        self._greet(greeting)
                    elif self._epoch is not None:
                        self._serve_frame(*self._epoch)
                except Exception:  # a bug must not end the session
                    self._complain(traceback.format_exc())
                    self._end_epoch(_BUG)
        finally:
            with self._changed:
                self._is_open = False
                # an engine's memory goes back now, not when somebody collects the cycle of session and make_worker
                self._worker, self._epoch = None, None

    def close(self) -> None:
        """Let :meth:`serve` return, and the robot know."""
        with self._changed:
            self._is_open = False
            epoch = self._epoch
            if epoch is not None:
                epoch[1].close(_ENDS)
            self._changed.notify_all()
        if epoch is not None:
            epoch[0].put(Kind.FAILED, _ENDS.encode(), epoch[1].frame)

    def _next_greeting(self) -> Packet | None:
        with self._changed:
            if self._greeting is None and self._epoch is None:
                self._changed.wait(IDLE_S)
            greeting, self._greeting = self._greeting, None
            return greeting

    def _greet(self, packet: Packet) -> None:
        channel = Channel(session=self.name, epoch=packet.epoch, send=self._send)
        if self._epoch is not None and self._epoch[0].epoch == packet.epoch:
            self._welcome(channel)  # our answer was lost, or is on its way
            return
        self._epoch = None
        try:
            hello = read_hello(packet.data)
            service = self._worker_for(hello).begin(hello, channel)
        except Exception as error:
            # a robot that hears nothing greets again, and would have the model compiled for ever
            is_told = isinstance(error, CacheinfError)
            self._complain(str(error) if is_told else traceback.format_exc())
            channel.put(Kind.REFUSED, (str(error) if is_told else _BUG).encode())
            self._is_open = False
            return
        with self._changed:
            self._epoch = channel, service
        self._welcome(channel)

    def _worker_for(self, hello: Hello) -> Worker:
        asked = Identity(model=hello.model, network=hello.network, dropped=hello.dropped), hello.work
        if self._worker is None or asked != self._asked:
            self._worker = None  # first: there may be no memory for both
            self._worker = self._make_worker(*asked)
            self._asked = asked
        return self._worker

    def _welcome(self, channel: Channel) -> None:
        assert self._worker is not None
        channel.put(
            Kind.WELCOME, written(Welcome(protocol=PROTOCOL, instance=self._instance, profile=self._worker.profile))
        )

    def _serve_frame(self, channel: Channel, service: Service) -> None:
        self._serving_since_s = time.monotonic()
        try:
            service.serve()
        except CacheinfError as error:
            self._end_epoch(str(error))
            if str(error) not in (_ANEW, _ENDS):
                self._complain(f"{self.name}: {error}")
        finally:
            self._serving_since_s = None

    def _end_epoch(self, reason: str) -> None:
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            channel, service = epoch
            channel.put(Kind.FAILED, reason.encode(), service.frame)
