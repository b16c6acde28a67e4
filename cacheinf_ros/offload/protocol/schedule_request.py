# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's question for schedules, which is asked until it is answered, and again in every session."""

from __future__ import annotations

from cacheinf_ros.offload.protocol.packets import LARGEST, Assembly, Kind, Packet, text_of

ANSWERS = (Kind.SEARCHING, Kind.SCHEDULES, Kind.NO_SCHEDULES)
_AGAIN_S = 1.0  # the time until a question without an answer is repeated: it, or its answer, was lost
_SEARCHING_S = 10.0  # the time until a question that is being searched for is repeated: its answer may be lost
_PATIENCE_S = 10.0  # how long a session may go without any answer
_SILENT = "it does not answer, as versions do that search for nobody"


class ScheduleRequest:
    """Send and Receive of CacheInf's algorithm 1, lines 2 and 3, over a link that loses packets.

    Attributes:
        question: what is asked, as bytes.
        answer: the table as it came, as bytes; None: not yet.
        refusal: why there will be no answer; empty: there may be one.
        is_searched: whether the server has said that it searches.
    """

    def __init__(self, question: bytes, most_bytes: int) -> None:
        """Prepare; an answer longer than ``most_bytes`` is refused before it is put together."""
        self.question = question
        self.answer: bytes | None = None
        self.refusal = ""
        self.is_searched = False
        self._most_bytes = most_bytes
        self._assembly: Assembly | None = None
        self._first_s: float | None = None  # when it was first asked in this session
        self._next_s = 0.0

    def withdraw(self) -> None:
        """Stop asking, because the answer would be of no use."""
        self.refusal = self.refusal or "it is not wanted any more"

    def begin_anew(self) -> None:
        """Ask again from the start, because the server of a new session knows of no question."""
        self._first_s, self._next_s, self._assembly = None, 0.0, None
        self.is_searched = False

    def is_due(self, now_s: float) -> bool:
        """Return whether to ask now; the caller then does, and the time is noted."""
        if self._has_ended:
            return False
        if not self.is_searched and self._first_s is not None and now_s - self._first_s > _PATIENCE_S:
            self.refusal = _SILENT
            return False
        if now_s < self._next_s:
            return False
        self._first_s = now_s if self._first_s is None else self._first_s
        self._next_s = now_s + (_SEARCHING_S if self.is_searched else _AGAIN_S)
        return True

    def hear(self, packet: Packet, now_s: float) -> None:
        """Take a sound packet, whose kind is one of :data:`ANSWERS`."""
        if self._has_ended or self._first_s is None:
            return
        if packet.kind == Kind.SEARCHING:
            self.is_searched = True
            self._next_s = now_s + _SEARCHING_S
        elif packet.kind == Kind.NO_SCHEDULES:
            self.refusal = text_of(packet) or "it does not say why"
        else:
            self._take(packet)

    @property
    def _has_ended(self) -> bool:
        return self.answer is not None or bool(self.refusal)

    def _take(self, packet: Packet) -> None:
        if (packet.parts - 1) * LARGEST > self._most_bytes:
            self.refusal = f"its table has {packet.parts} parts, more than one of this network"
            return
        self._assembly = Assembly.of(self._assembly, packet)
        if self._assembly.size > self._most_bytes:
            self.refusal = f"its table has more than the {self._most_bytes} bytes of one of this network"
            return
        self.answer = self._assembly.content
