# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What robot and server send each other: contents cut into packets below the size at which messages get slow.

A packet says which session, which start of it (epoch), which frame and which content it belongs to. What belongs
elsewhere, comes twice, or was damaged on the way is left out; what is missing is noticed by whoever waits for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from cacheinf_ros.errors import MOST_CHARACTERS

LARGEST = 400_000
"""Bytes of content in a packet: a message of 1 MB takes twenty times as long as one of a tenth."""
_MOST_PARTS = 1000
_WRAPPING = 150  # bytes: a message's other fields, and what the network adds


class Kind(IntEnum):
    """What a packet's content is."""

    HELLO = 0
    """Robot: start anew; who I am and what I run. Every version reads it."""
    WELCOME = 1
    """Server: started anew; what I take."""
    REFUSED = 2
    """Server: no, because. Every version reads it."""
    START = 3
    """Robot: a frame begins."""
    STARTED = 4
    """Server: the frame's start has arrived."""
    ROWS = 5
    """Either: values of a tensor."""
    FAILED = 6
    """Either: the frame cannot be finished, and the session must start anew."""
    DONE = 7
    """Server: my part is done; what it took."""
    BYE = 8
    """Robot: the session ends for good."""
    FRAME = 9
    """Robot: a whole frame to compute."""
    RESULT = 10
    """Server: what came of it."""
    SEARCH = 11
    """Robot: search for schedules; what operators take here."""
    SEARCHING = 12
    """Server: I do."""
    SCHEDULES = 13
    """Server: what was found."""
    NO_SCHEDULES = 14
    """Server: I do not, because."""
    LOAD = 15
    """Server: how busy I am; of no epoch."""


_OF_EVERY_VERSION = (Kind.HELLO, Kind.REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A part of a content.

    Attributes:
        session: of one robot.
        epoch: counts how often the session has started.
        frame: counts frames, from 1; 0: none.
        tensor: of :attr:`Kind.ROWS`, by number: 0 is the network's input; otherwise 0.
        part, parts: which of how many.
        checksum: CRC-32 of all other fields and then the data; of :attr:`Kind.HELLO` and :attr:`Kind.REFUSED`, which
            say to other versions that they are others, of the data alone.
    """

    session: str
    epoch: int
    kind: int
    frame: int = 0
    tensor: int = 0
    part: int = 0
    parts: int = 1
    data: bytes = b""
    checksum: int = 0

    @property
    def bytes_on_wire(self) -> int:
        """About."""
        return len(self.data) + _WRAPPING

    @property
    def starts_session(self) -> bool:
        """Whether a session may begin with it: it greets, and the name can be part of a topic's."""
        name = self.session
        return self.is_sound and self.kind == Kind.HELLO and name.isidentifier() and name.isascii() and len(name) < 100

    @property
    def ends_session(self) -> bool:
        """Whether the robot needs the session no more."""
        return self.is_sound and self.kind == Kind.BYE

    @property
    def is_sound(self) -> bool:
        """Whether it can be what was sent."""
        in_order = 0 <= self.part < self.parts <= _MOST_PARTS and len(self.data) <= LARGEST
        return in_order and self.kind in Kind._value2member_map_ and self._sum() == self.checksum

    def sealed(self) -> Packet:
        """Return it with its checksum."""
        return replace(self, checksum=self._sum())

    def _sum(self) -> int:
        if self.kind in _OF_EVERY_VERSION:
            return zlib.crc32(self.data)
        numbers = (self.epoch, int(self.kind), self.frame, self.tensor, self.part, self.parts)
        return zlib.crc32(self.data, zlib.crc32(f"{self.session} {numbers}".encode(errors="replace")))


Send = Callable[[Packet], None]


def text_of(packet: Packet) -> str:
    """What a packet says in words, shortened and in one line: it goes into logs, which terminals show."""
    text = packet.data[: 4 * MOST_CHARACTERS].decode(errors="replace")[:MOST_CHARACTERS]
    return "".join(each if each.isprintable() else " " for each in text)


def cut(
    content: bytes, *, session: str, epoch: int, kind: Kind, frame: int = 0, tensor: int = 0, largest: int = LARGEST
) -> Iterator[Packet]:
    """A content as packets."""
    parts = max(1, -(-len(content) // largest))
    for part in range(parts):
        data = content[part * largest : (part + 1) * largest]
        yield Packet(
            session=session, epoch=epoch, kind=kind, frame=frame, tensor=tensor, part=part, parts=parts, data=data
        ).sealed()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Channel:
    """The way to the other end, in one epoch.

    Attributes:
        session, epoch: see :class:`Packet`.
        send: takes each packet; it must not wait.
    """

    session: str
    epoch: int
    send: Send

    def put(self, kind: Kind, content: bytes = b"", frame: int = 0, tensor: int = 0) -> None:
        """Send a content."""
        for packet in cut(content, session=self.session, epoch=self.epoch, kind=kind, frame=frame, tensor=tensor):
            self.send(packet)


class Assembly:
    """Puts a content together from its packets, in whatever order and however often they come.

    Attributes:
        size: bytes so far.
    """

    def __init__(self, parts: int) -> None:
        self._count = parts
        self._parts: dict[int, bytes] = {}
        self.size = 0

    def add(self, packet: Packet) -> bool:
        """Take a sound packet; whether it was new and fits to the others."""
        if packet.parts != self._count or packet.part in self._parts:
            return False
        self._parts[packet.part] = packet.data
        self.size += len(packet.data)
        return True

    @classmethod
    def of(cls, before: Assembly | None, packet: Packet) -> Assembly:
        """Put a sound packet to those before it; where it does not fit to them, another content begins with it."""
        if before is not None and before.add(packet):
            return before
        anew = cls(packet.parts)
        anew.add(packet)
        return anew

    @property
    def packets(self) -> int:
        """How many parts have come."""
        return len(self._parts)

    @property
    def is_complete(self) -> bool:
        """Whether no part is missing."""
        return len(self._parts) == self._count

    @property
    def content(self) -> bytes | None:
        """Join all parts; None as long as some are missing."""
        if not self.is_complete:
            return None
        return b"".join(self._parts[part] for part in range(self._count))
