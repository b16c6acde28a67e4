# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's answers to a robot that asks for schedules.

What questions and answers mean is known elsewhere; here they are bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from cacheinf_ros.errors import CacheinfError, SearchError
from cacheinf_ros.offload.protocol.packets import Channel, Kind, Packet

Find = Callable[[str, bytes], bytes | None]
"""A function that takes a session's name and its question, and returns the answer.

It returns None while the answer is being searched for, and does not wait. It raises :class:`CacheinfError` where no
answer is to be expected.
"""


def find_nothing(session: str, question: bytes) -> bytes | None:
    """Decline every question, as a :data:`Find`."""
    raise SearchError("it searches for nobody (it is part of a fleet, or states no times)")


class ScheduleService:
    """Answers a robot's questions for schedules in one epoch; see :class:`.server_session.Service`."""

    def __init__(self, channel: Channel, find: Find) -> None:
        self._channel = channel
        self._find = find
        self._arrived: bytes | None = None
        self._asked: bytes | None = None  # the question that has no answer yet

    def deliver(self, packet: Packet) -> None:
        """Take a sound packet, in the receiving thread; one that is no question is dropped."""
        if packet.kind == Kind.SEARCH and packet.parts == 1:  # even for the largest network a question is one packet
            self._arrived = packet.data

    def serve(self) -> None:
        """Answer a question that has come, or an earlier one as soon as its answer is there; does not wait.

        This is Send(Schedule) of CacheInf's algorithm 2, line 4.
        """
        arrived, self._arrived = self._arrived, None
        question = self._asked if arrived is None else arrived
        if question is None:
            return
        self._asked = None
        try:
            answer = self._find(self._channel.session, question)
        except CacheinfError as error:
            self._channel.put(Kind.NO_SCHEDULES, str(error).encode())
            return
        if answer is not None:
            self._channel.put(Kind.SCHEDULES, answer)
            return
        self._asked = question
        if arrived is not None:
            self._channel.put(Kind.SEARCHING)
