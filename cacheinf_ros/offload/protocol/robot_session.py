# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's session with a server: greets it, notices when it is gone, and starts anew whenever anything goes wrong.

The purpose of a session, rows of shared frames or whole frames, is added in :mod:`.row_session` and
:mod:`.whole_frame_session`.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.protocol.frames import OffloadConfig
from cacheinf_ros.offload.protocol.greeting import (
    LONGEST_GREETING,
    PROTOCOL,
    Hello,
    Identity,
    Welcome,
    Work,
    read_welcome,
    written,
)
from cacheinf_ros.offload.protocol.packets import Assembly, Kind, Packet, Send, cut, text_of

NOT_YET = "no server has answered yet"
REFUSES = "the server refuses"
NO_PLACE = "the server has no place left: raise its server.max_robots"
"""Why a server refuses a robot that it would serve if another one left."""
NO_MEMORY = "the server has no memory left for another model: raise its server.catalog_memory_mb"
"""Why a server refuses a model that it would load if another one, of this robot or not, were no longer asked."""
_QUIET_S = 1.0  # the silence after which the server is greeted again; it answers if it is still the same
_SILENT_S = 3.0  # the silence, or two deadlines where that is longer, after which the server counts as dead


class RobotSession:
    """A session for two threads, of which one receives and the other computes frames.

    Both sides keep what they know of each other only as long as nothing is lost: any irregularity ends the epoch, and
    with the next one both start from nothing.

    Attributes:
        name: the session's name.
    """

    def __init__(
        self, name: str, identity: Identity, work: Work, config: OffloadConfig, send: Send, *, epoch: int = 1
    ) -> None:
        """Prepare; nothing is sent before :meth:`poll`.

        Args:
            name: part of the name of the topic on which the server answers.
            identity: the identity of the model.
            work: what the server is to do.
            config: deadlines, and how values are encoded.
            send: takes packets for the server; it must not wait.
            epoch: the first epoch, later than all epochs that the engine has seen.
        """
        self.name = name
        self._config = config
        self._send = send
        self._lock = threading.RLock()
        self._sending = threading.RLock()  # held while a greeting or farewell is sent: none must overtake another
        self._hello = Hello(
            protocol=PROTOCOL,
            **greeting_fields(identity),
            work=work,
            wire_type=config.wire_dtype.value,
            compress=config.wire_compress,
            patience_ms=config.server_deadline_ms,
            priority=config.priority,
        )
        self._complaint = NOT_YET
        self._epoch = epoch
        self._next_hello = self._heard = 0.0
        self._greeted: Assembly | None = None
        self._welcome: Welcome | None = None
        self._successor: Welcome | None = None  # the greeting for the next epoch: the server has moved
        self._welcomed = 0.0
        self._refusals = 0  # in a row: each doubles the time until the next greeting
        self._is_open = True

    @property
    def complaint(self) -> str:
        """Why there is no server to work with; empty where there is one."""
        return self._complaint

    @property
    def welcome(self) -> Welcome | None:
        """What the server said when it greeted; None where there is no session."""
        return self._welcome

    @property
    def epoch(self) -> int:
        """How often the session has started, or tried to start."""
        return self._epoch

    def poll(self) -> None:
        """Greet the server where there is none, or where it is silent; must be called now and then."""
        with self._sending:
            for packet in self._due_greeting():
                self._send(packet)

    def close(self) -> None:
        """End for good, and tell the server; no greeting follows."""
        with self._sending:
            with self._lock:
                self._is_open = False
                epoch = self._epoch
                self._fail("the session was closed")
            for packet in cut(b"", session=self.name, epoch=epoch, kind=Kind.BYE):
                self._send(packet)

    def receive(self, packet: Packet) -> None:
        """Take a packet from the server; one that is damaged, late or for another session is dropped."""
        if packet.session != self.name or not packet.is_sound:
            return
        with self._lock:
            is_successor = packet.epoch == self._epoch + 1 and packet.kind == Kind.WELCOME and self._welcome is not None
            if not (packet.epoch == self._epoch or is_successor) or not self._is_open:
                return
            self._heard = time.monotonic()
            if packet.kind in (Kind.WELCOME, Kind.REFUSED):
                self._hear_greeting(packet)
            elif self._welcome is not None:
                self._hear(packet)

    def fail(self, epoch: int, reason: str) -> None:
        """End an epoch, if it has not ended yet, because nobody knows what the other side has."""
        with self._lock:
            if epoch == self._epoch:
                self._fail(reason)

    def _due_greeting(self) -> list[Packet]:
        """Return the packets of the greeting that is due; none where none is."""
        with self._lock:
            if not self._is_open:
                return []
            now = time.monotonic()
            if self._welcome is not None and now - self._heard > self._silent_s:
                self._fail("the server is silent")
            if now < self._next_hello or (self._welcome is not None and now - self._heard < _QUIET_S):
                return []
            self._next_hello = now + self._config.probe_s
            return list(cut(written(self._hello), session=self.name, epoch=self._epoch, kind=Kind.HELLO))

    def _hear(self, packet: Packet) -> None:
        """Take a packet of the current epoch that is no greeting."""
        if packet.kind == Kind.FAILED:
            self._fail(f"the server: {text_of(packet)}")
            # the server is alive, and may have moved: it is greeted at once, unless it has only just failed
            self._next_hello = self._welcomed + self._config.probe_s

    def _objection(self, welcome: Welcome) -> str:
        """Return why a session cannot start with the server's greeting; empty where it can."""
        raise NotImplementedError

    @property
    def _silent_s(self) -> float:
        """How long a server may be silent, seconds."""
        return max(_SILENT_S, self._config.server_deadline_ms / 500)

    def _welcomed_again(self) -> None:
        """Take note that the server is alive, and between two frames."""

    def _started(self) -> None:
        """Prepare for the first frame of a session."""

    def _ended(self, reason: str) -> None:
        """Release threads that wait for the server."""

    def _follow(self) -> None:
        """Switch to a server that has moved, in the next epoch: between two frames, so that none is lost."""
        if self._successor is not None and self._welcome is not None:
            self._ended("the server has moved")
            self._epoch += 1
            self._welcome, self._successor = self._successor, None
            self._welcomed = time.monotonic()
            self._started()

    def _hear_greeting(self, packet: Packet) -> None:
        if packet.kind == Kind.REFUSED:
            self._complain(f"{REFUSES}: {text_of(packet)}")
            wait_s = self._config.probe_s * 2.0 ** min(self._refusals, 30)
            self._next_hello = time.monotonic() + min(wait_s, self._config.probe_max_s)
            self._refusals += 1
            return
        self._greeted = Assembly.of(self._greeted, packet)
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
        if self._welcome is not None and welcome.server != self._welcome.server:
            return  # another gateway has taken this robot, too, before it heard of the first
        objection = self._objection(welcome)
        if packet.epoch != self._epoch:
            self._successor = None if objection else welcome
        elif objection:
            self._complain(objection)
        elif self._welcome is None:
            self._welcome, self._complaint, self._refusals = welcome, "", 0
            self._welcomed = time.monotonic()
            self._started()
        elif self._welcome.instance != welcome.instance:
            self._fail("the server has started anew")
        else:
            self._welcomed_again()

    def _complain(self, reason: str) -> None:
        """Take note of why no session can start, and end the current one where there is one."""
        if self._welcome is not None:
            self._fail(reason)
        self._complaint = reason
        self._ended(reason)

    def _fail(self, reason: str) -> None:
        self._welcome, self._successor, self._greeted, self._complaint = None, None, None, reason
        self._epoch += 1
        self._next_hello = time.monotonic() + self._config.probe_s
        self._ended(reason)


def greeting_fields(identity: Identity) -> dict[str, Any]:
    """Return what a greeting says of a model, by field."""
    return {name: getattr(identity, name) for name in ("model", "network", "dropped", "levels")}
