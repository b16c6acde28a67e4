# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What robot and server send each other: contents, cut into packets below the size at which messages get slow.

A packet says which session, which start of it (epoch), which frame and which content it belongs to. Packets that belong
elsewhere, come twice, or were damaged in transit are dropped; whoever waits for a content notices what is missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from cacheinf_ros.errors import MOST_CHARACTERS

LARGEST = 400_000
"""The largest content of a packet, in bytes: a message of 1 MB takes twenty times as long as one of 100 kB."""
USUAL = 100_000
"""The size in bytes that most contents are cut to while that makes no more than four packets."""
_USUAL_PARTS = 4
_MOST_PARTS = 1000
_WRAPPING = 150  # bytes of a message's other fields, and of network headers


class Kind(IntEnum):
    """The kind of a content, which says what it is for."""

    HELLO = 0
    """Robot: starts anew, and says who it is and what it runs; every version can read it."""
    WELCOME = 1
    """Server: has started anew, and says what its operators take."""
    REFUSED = 2
    """Server: refuses, and says why; every version can read it."""
    START = 3
    """Robot: begins a frame."""
    STARTED = 4
    """Server: has received the frame's start."""
    ROWS = 5
    """Either: sends values of a tensor."""
    FAILED = 6
    """Either: cannot finish the frame, and the session must start anew."""
    DONE = 7
    """Server: has finished its part of the frame, and says what that took."""
    BYE = 8
    """Robot: ends the session for good."""
    FRAME = 9
    """Robot: sends a whole frame to compute."""
    RESULT = 10
    """Server: sends the result of a whole frame."""
    SEARCH = 11
    """Robot: asks for a search for schedules, and says what its operators take."""
    SEARCHING = 12
    """Server: searches for schedules."""
    SCHEDULES = 13
    """Server: sends the schedules that were found."""
    NO_SCHEDULES = 14
    """Server: does not search, and says why."""
    LOAD = 15
    """Server: says how busy it is; belongs to no epoch."""


_OF_EVERY_VERSION = (Kind.HELLO, Kind.REFUSED)
_RARELY_CUT = (Kind.HELLO, Kind.SEARCH, Kind.SCHEDULES)  # who reads them, earlier versions too, expects one packet


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A part of a content, with the addresses that say where it belongs.

    Attributes:
        session: the name of a session with one robot.
        epoch: counts how often the session has started.
        kind: a :class:`Kind`, where the packet is sound.
        frame: counts frames, from 1; 0: none.
        tensor: the number of the tensor, for :attr:`Kind.ROWS`: 0 is the network's input; otherwise 0.
        part, parts: the number of this part, from 0, and how many there are.
        data: the bytes of this part.
        checksum: CRC-32 of all other fields and then the data. For :attr:`Kind.HELLO` and :attr:`Kind.REFUSED`, by
            which versions tell each other that they differ, CRC-32 of the data alone.
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
        """The approximate number of bytes that the packet takes on the network."""
        return len(self.data) + _WRAPPING

    @property
    def starts_session(self) -> bool:
        """Whether a session may begin with the packet: it greets, and its session's name may be part of a topic's."""
        name = self.session
        return self.is_sound and self.kind == Kind.HELLO and name.isidentifier() and name.isascii() and len(name) < 100

    @property
    def ends_session(self) -> bool:
        """Whether the packet says that the robot no longer needs the session."""
        return self.is_sound and self.kind == Kind.BYE

    @property
    def is_sound(self) -> bool:
        """Whether the packet can be what was sent: its checksum is right, and its fields are possible."""
        in_order = 0 <= self.part < self.parts <= _MOST_PARTS and len(self.data) <= LARGEST
        return in_order and self.kind in Kind._value2member_map_ and self._sum() == self.checksum

    def sealed(self) -> Packet:
        """Return the packet with its checksum."""
        return replace(self, checksum=self._sum())

    def _sum(self) -> int:
        if self.kind in _OF_EVERY_VERSION:
            return zlib.crc32(self.data)
        numbers = (self.epoch, int(self.kind), self.frame, self.tensor, self.part, self.parts)
        return zlib.crc32(self.data, zlib.crc32(f"{self.session} {numbers}".encode(errors="replace")))


Send = Callable[[Packet], None]


def text_of(packet: Packet) -> str:
    """Return a packet's text, shortened and on one line, because it goes into logs, which terminals show."""
    text = packet.data[: 4 * MOST_CHARACTERS].decode(errors="replace")[:MOST_CHARACTERS]
    return "".join(each if each.isprintable() else " " for each in text)


def cut(
    content: bytes, *, session: str, epoch: int, kind: Kind, frame: int = 0, tensor: int = 0, largest: int = 0
) -> Iterator[Packet]:
    """Cut a content into packets.

    In a robot's node the middleware keeps a buffer for each packet that was ever in transit at once, as large as the
    largest that it ever held (docs/faults.md). So contents of up to 400 kB are cut into packets of :data:`USUAL` size,
    and larger ones into four, or more where these would exceed :data:`LARGEST`.

    Args:
        largest: bytes of a packet's data; 0: as just said, or :data:`LARGEST` for greetings, and what searches for
            schedules need.
    """
    if not largest:
        usual = LARGEST if kind in _RARELY_CUT else USUAL
        largest = min(LARGEST, max(usual, -(-len(content) // _USUAL_PARTS)))
    parts = max(1, -(-len(content) // largest))
    for part in range(parts):
        data = content[part * largest : (part + 1) * largest]
        yield Packet(
            session=session, epoch=epoch, kind=kind, frame=frame, tensor=tensor, part=part, parts=parts, data=data
        ).sealed()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Channel:
    """The way to the other end in one epoch.

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
    """Reassembles a content from its packets, in whatever order and however often they come.

    Attributes:
        size: the bytes so far.
    """

    def __init__(self, parts: int) -> None:
        self._count = parts
        self._parts: dict[int, bytes] = {}
        self.size = 0

    def add(self, packet: Packet) -> bool:
        """Take a sound packet, and return whether it was new and fits the others."""
        if packet.parts != self._count or packet.part in self._parts:
            return False
        self._parts[packet.part] = packet.data
        self.size += len(packet.data)
        return True

    @classmethod
    def of(cls, before: Assembly | None, packet: Packet) -> Assembly:
        """Return an assembly with a sound packet added: ``before``, or a new one where the packet does not fit it."""
        if before is not None and before.add(packet):
            return before
        anew = cls(packet.parts)
        anew.add(packet)
        return anew

    @property
    def packets(self) -> int:
        """The number of parts that have come."""
        return len(self._parts)

    @property
    def is_complete(self) -> bool:
        """Whether no part is missing."""
        return len(self._parts) == self._count

    @property
    def content(self) -> bytes | None:
        """The joined parts; None while some are missing."""
        if not self.is_complete:
            return None
        return b"".join(self._parts[part] for part in range(self._count))
