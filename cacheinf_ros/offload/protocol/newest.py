# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Contents of which only the newest counts."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.offload.protocol.packets import Assembly, Kind, Packet


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A complete content.

    Attributes:
        frame: the frame that the content belongs to.
        content: the bytes.
    """

    frame: int
    content: bytes


_MOST_AHEAD = 1000  # frames: a packet that is further ahead is a mistake, or from somebody else


class NewestContent:
    """Reassembles contents of one kind, one for each frame; those of later frames replace earlier ones.

    Attributes:
        too_large: the last frame whose content was dropped for its size; 0: none.
    """

    def __init__(self, kind: Kind, most_bytes: int) -> None:
        """Prepare; contents larger than ``most_bytes`` are dropped."""
        self.too_large = 0
        self._kind = kind
        self._most_bytes = most_bytes
        self._frame = 0
        self._assembly: Assembly | None = None  # None: the content was taken, or dropped

    def deliver(self, packet: Packet) -> None:
        """Take a sound packet, if it is of any use."""
        if packet.kind != self._kind or packet.frame < self._frame or packet.tensor:
            return
        if self._frame and packet.frame > self._frame + _MOST_AHEAD:
            return  # otherwise all later frames would count as late
        if packet.frame > self._frame:
            self._frame, self._assembly = packet.frame, Assembly(packet.parts)
        if self._assembly is None:
            return
        self._assembly.add(packet)
        if self._assembly.size > self._most_bytes:
            self._assembly, self.too_large = None, self._frame

    def take(self) -> Arrived | None:
        """Return the newest content once, if it is complete, else None."""
        content = self._assembly.content if self._assembly is not None else None
        if content is None:
            return None
        self._assembly = None
        return Arrived(frame=self._frame, content=content)
