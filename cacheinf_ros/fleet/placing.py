# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a session asks of the fleet: a place, the way there, and to be told where that is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cacheinf_ros.fleet.demand import Demand
from cacheinf_ros.fleet.frame_stream import Listening, PacketStream
from cacheinf_ros.fleet.messages import Elsewhere, Place, Refusal
from cacheinf_ros.offload.protocol.greeting import Hello, Welcome


class Fleet(Protocol):
    """What a session asks of the fleet, in a thread that may wait; see :class:`.gateway.FleetGateway`."""

    name: str

    def admit(self, session: str, hello: Hello) -> Place | Elsewhere | Refusal:
        """Find a place; :class:`CacheinfError` where the fleet cannot be asked, or has no such model."""
        ...

    def open(self, place: Place, hello: Hello, listening: Listening, is_wanted: Callable[[], bool]) -> PacketStream:
        """Connect to a process, and start it first where it is new; :class:`LinkError` where that fails."""
        ...

    def predicted(self, hello: Hello, welcome: Welcome) -> Demand:
        """What frames of a session take, by the profile of the process."""
        ...

    def lose(self, place: Place) -> None:
        """A process does not answer any more."""
        ...

    def leave(self, session: str) -> None:
        """A session has ended."""
        ...

    def count(self, what: str, by: float = 1) -> None:
        """Count what happens, for whoever looks at the fleet."""
        ...
