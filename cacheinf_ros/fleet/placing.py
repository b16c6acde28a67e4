# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The interface of the fleet to a session: a place, a connection to it, and reports of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cacheinf_ros.fleet.demand import Demand
from cacheinf_ros.fleet.frame_stream import Listening, PacketStream
from cacheinf_ros.fleet.messages import Elsewhere, Place, Refusal
from cacheinf_ros.offload.protocol.greeting import Hello, Welcome


class Fleet(Protocol):
    """The fleet as a session sees it, from a thread that may wait; see :class:`.gateway.FleetGateway`."""

    name: str

    def admit(self, session: str, hello: Hello) -> Place | Elsewhere | Refusal:
        """Find a place; raises :class:`CacheinfError` where the fleet does not answer, or has no such model."""
        ...

    def open(
        self, place: Place, hello: Hello, listening: Listening, is_wanted: Callable[[], bool]
    ) -> PacketStream | None:
        """Connect to a process, and start it first if it is new; None: it is not wanted any more.

        Raises:
            StartError: the process could not start; the fleet knows.
            LinkError: the process does not answer.
        """
        ...

    def predicted(self, hello: Hello, welcome: Welcome) -> Demand:
        """Predict a session's demand, by the profile of the process."""
        ...

    def lose(self, place: Place) -> None:
        """Report that a process does not answer any more."""
        ...

    def leave(self, session: str) -> None:
        """Report that a session has ended."""
        ...

    def count(self, what: str, by: float = 1) -> None:
        """Count an event, for those who monitor the fleet."""
        ...
