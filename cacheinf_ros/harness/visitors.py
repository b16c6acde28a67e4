# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Robots that come to a server, greet it, and go: politely, without a word, or with another model's weights."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

from cacheinf_ros.harness.churn import Visit
from cacheinf_ros.nodes.robot_station import RobotStation
from cacheinf_ros.offload import Identity, OffloadConfig, RowSession

_STAY_S = 10.0  # a busy server may take seconds to compile for a new robot
_OTHER_WEIGHTS = "0" * 32


class Visitors:
    """All visitors of one server.

    Attributes:
        went: how many came, and how many of them were given a session, by kind of visit.
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
        """``space``: the engine's partition space of the model."""
        self.went: Counter[str] = Counter()
        self._station = station
        self._identity = identity
        self._space = space
        self._share_topic, self._answer_topic = share_topic, answer_topic
        self._names = (f"visitor_{seed}_{number}" for number in itertools.count())
        self._there: list[tuple[Visit, RowSession, float]] = []

    def come(self, visit: Visit, now_s: float) -> None:
        """One more comes."""
        identity = self._identity
        if visit is Visit.STRANGER:
            identity = replace(identity, network=_OTHER_WEIGHTS)
        name = next(self._names)
        session = RowSession(
            name,
            identity,
            self._space,
            OffloadConfig(),
            lambda packet: self._station.send(self._share_topic, packet),
        )
        self._station.join_server(self._share_topic, f"{self._answer_topic}/{name}", session.receive)
        self._there.append((visit, session, now_s))
        self.went[f"{visit.value}: came"] += 1

    def poll(self, now_s: float) -> None:
        """Let them greet; those that have a session, or have waited long enough, go."""
        staying = []
        for visit, session, since_s in self._there:
            session.poll()
            if session.welcome is None and now_s - since_s < _STAY_S:
                staying.append((visit, session, since_s))
                continue
            if session.welcome is not None:
                self.went[f"{visit.value}: had a session"] += 1
            if visit is not Visit.SILENT:
                session.close()
            self._station.leave_server(f"{self._answer_topic}/{session.name}")
        self._there = staying
