# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's session with one robot: greets it, and does what it asks for.

One thread receives, another serves. Nothing that a robot sends is executed or unpickled, and nothing is allocated
before its size has been compared with what the work requires.
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
"""The time after which the serving thread checks whether it is to end, seconds."""
_ANEW = "the robot has started anew"
_ENDS = "the server ends"
_BUG = "internal error of the server, see its log"


class Service(Protocol):
    """The work for a robot in one epoch.

    Attributes:
        frame: the frame with which the epoch ends where :meth:`serve` fails; 0: none.
    """

    frame: int

    def deliver(self, packet: Packet) -> None:
        """Take a sound packet of this epoch, in the receiving thread."""
        ...

    def serve(self) -> None:
        """Serve one frame, or none if none comes within :data:`IDLE_S`; :class:`CacheinfError` ends the epoch."""
        ...

    def close(self, reason: str) -> None:
        """Make :meth:`serve` return, or fail for this reason."""
        ...


class Worker(Protocol):
    """Computes a robot's model, for as long as the robot asks for it.

    Attributes:
        profile: operator times that the robot is told, see :class:`Welcome`.
    """

    profile: list[list[float]]

    def begin(self, hello: Hello, channel: Channel) -> Service:
        """Begin a new epoch, from nothing; raises :class:`CacheinfError` where the robot asks for the impossible."""
        ...


class ServerSession:
    """A session that ends with a refusal, or when it is closed.

    A robot that has been served may ask for another model in the same session. Where that one is refused the session
    goes on with none, so that the robot can go back to the model before, and nobody else has its place by then.

    Attributes:
        name: the session's name.
    """

    def __init__(
        self, name: str, make_worker: Callable[[Identity, Work], Worker], send: Send, complain: Callable[[str], None]
    ) -> None:
        """Prepare.

        Args:
            name: the session's name.
            make_worker: makes the worker, which takes time; called by :meth:`serve`. Raises :class:`CacheinfError`
                where there is no such model.
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
        self._is_ending = False  # whether the epoch's service was closed for another greeting
        self._worker: Worker | None = None
        self._asked: tuple[Identity, Work] | None = None  # what the worker was made for
        self._has_served = False
        self._is_open = True
        self._serving_since_s: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether the session serves, or will serve."""
        return self._is_open

    @property
    def busy_s(self) -> float:
        """How long it has worked on the current frame, seconds; while none comes, never more than :data:`IDLE_S`."""
        since_s = self._serving_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    def receive(self, packet: Packet) -> None:
        """Take a packet from the robot; one that is damaged, late or for another session is dropped."""
        if packet.session != self.name or not packet.is_sound:
            return
        with self._changed:
            epoch = self._epoch
            if packet.kind == Kind.HELLO:
                if epoch is not None and epoch[0].epoch != packet.epoch:
                    epoch[1].close(_ANEW)
                    self._is_ending = True
                self._greeting = packet
                self._changed.notify_all()
            elif epoch is not None and epoch[0].epoch == packet.epoch:
                epoch[1].deliver(packet)

    def serve(self) -> None:
        """Serve until the session ends, whatever the robot sends.

        However the call ends, the session no longer counts as open after it.
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
                # frees the engine's memory now, not when the cycle of session and make_worker is collected
                self._worker, self._epoch = None, None

    def close(self) -> None:
        """Make :meth:`serve` return, and tell the robot."""
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
            if self._is_ending:  # an older greeting came late, and this one after it
                self._end_epoch(_ANEW)
            else:
                self._welcome(channel)  # our answer was lost, or is on its way
            return
        self._epoch = None
        try:
            hello = read_hello(packet.data)
            service = self._worker_for(hello).begin(hello, channel)
        except Exception as error:
            # a robot that gets no answer greets again, and would have the model compiled forever
            is_told = isinstance(error, CacheinfError)
            self._complain(str(error) if is_told else traceback.format_exc())
            channel.put(Kind.REFUSED, (str(error) if is_told else _BUG).encode())
            if self._has_served and self._worker is None:
                self._drop_greeting(packet.epoch)
            else:
                self._is_open = False
            return
        with self._changed:
            self._epoch, self._is_ending, self._has_served = (channel, service), False, True
        self._welcome(channel)

    def _drop_greeting(self, epoch: int) -> None:
        """Drop what the robot said again while its model was made: it would be made once more, in vain."""
        with self._changed:
            if self._greeting is not None and self._greeting.epoch == epoch:
                self._greeting = None

    def _worker_for(self, hello: Hello) -> Worker:
        asked = Identity(model=hello.model, network=hello.network, dropped=hello.dropped), hello.work
        if self._worker is None or asked != self._asked:
            self._worker = None  # before the new one: there may be no memory for both
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
