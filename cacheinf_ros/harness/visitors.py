# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Robots that come to a server, greet it, and leave: politely, silently, with other weights or another version."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

from cacheinf_ros.harness.churn import Visit
from cacheinf_ros.nodes.robot_station import RobotStation
from cacheinf_ros.offload import REFUSES, Identity, OffloadConfig, Packet, RowSession
from cacheinf_ros.offload.protocol.greeting import PROTOCOL, read_hello, written
from cacheinf_ros.offload.protocol.packets import Kind, cut

_STAY_S = 10.0  # a busy server may take seconds to compile for a new robot
_OTHER_WEIGHTS = "0" * 32


class Visitors:
    """Sends all visitors to one server.

    Attributes:
        came: how many came, by kind of visit.
        went: how many came, how many of them were given a session, and how many were refused one, by kind of visit.
    """

    def __init__(
        self,
        station: RobotStation,
        identity: Identity,
        space: Any,
        share_topic: str,
        answer_topic: str,
        seed: int,
    ) -> None:
        """Begin without visitors; ``space``: the engine's partition space of the model."""
        self.came: Counter[Visit] = Counter()
        self.went: Counter[str] = Counter()
        self._station = station
        self._identity = identity
        self._space = space
        self._share_topic, self._answer_topic = share_topic, answer_topic
        self._names = (f"visitor_{seed}_{number}" for number in itertools.count())
        self._there: list[tuple[Visit, RowSession, float]] = []

    def come(self, visit: Visit, now_s: float) -> None:
        """Send one more visitor."""
        identity = self._identity
        if visit is Visit.STRANGER:
            identity = replace(identity, network=_OTHER_WEIGHTS)
        name = next(self._names)
        send = self._send_as_newer if visit is Visit.NEWER else self._send
        session = RowSession(name, identity, self._space, OffloadConfig(), send)
        self._station.join_server(self._share_topic, f"{self._answer_topic}/{name}", session.receive)
        self._there.append((visit, session, now_s))
        self.came[visit] += 1
        self.went[f"{visit.value}: came"] += 1

    def poll(self, now_s: float) -> None:
        """Let the visitors greet; those that have a session, were refused, or have waited long enough, leave."""
        staying = []
        for visit, session, since_s in self._there:
            session.poll()
            is_refused = session.complaint.startswith(REFUSES)
            if session.welcome is None and not is_refused and now_s - since_s < _STAY_S:
                staying.append((visit, session, since_s))
                continue
            if session.welcome is not None:
                self.went[visit.admitted] += 1
            self.went[f"{visit.value}: was refused"] += is_refused
            if visit is not Visit.SILENT:
                session.close()
            self._station.leave_server(f"{self._answer_topic}/{session.name}")
        self._there = staying

    def _send(self, packet: Packet) -> None:
        self._station.send(self._share_topic, packet)

    def _send_as_newer(self, packet: Packet) -> None:
        """Send a packet as a robot would whose protocol is the next version."""
        if packet.kind == Kind.HELLO:
            hello = read_hello(packet.data).model_copy(update={"protocol": PROTOCOL + 1})
            (packet,) = cut(written(hello), session=packet.session, epoch=packet.epoch, kind=Kind.HELLO)
        self._send(packet)
