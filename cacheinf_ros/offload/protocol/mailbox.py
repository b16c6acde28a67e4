# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A mailbox for contents that have arrived, for a thread that waits for them."""

from __future__ import annotations

import threading
import time

from cacheinf_ros.engine import PartitionSpace
from cacheinf_ros.errors import LinkError
from cacheinf_ros.offload.protocol.packets import LARGEST, Assembly, Kind, Packet

_AHEAD = 2  # frames after the last one that was taken
_SPARE = 2**20  # bytes for contents other than rows
_LEAST = LARGEST // 100  # bytes per packet on which the number of packets is based: empty ones take memory, too
_MORE_PACKETS = 100
Address = tuple[int, int, int]
"""The address of a content: frame, kind, tensor."""


def room_for(space: PartitionSpace) -> int:
    """Return the bytes that all tensors of a network take, with their headers and some room to spare."""
    return _SPARE + sum(5 * rows * width * channels + 4096 for rows, width, channels in space.shapes.values())


class Mailbox:
    """Holds the packets of one epoch of a session; one thread delivers, another takes.

    Attributes:
        most_bytes: the bytes that may wait; packets beyond that are dropped.
    """

    def __init__(self, most_bytes: int, tensors: int) -> None:
        """Prepare; ``tensors`` is the number of tensors."""
        self.most_bytes = most_bytes
        self._most_packets = _MORE_PACKETS + (1 + _AHEAD) * tensors + most_bytes // _LEAST
        self._packets = 0
        self._tensors = tensors
        self._changed = threading.Condition()
        self._waiting: dict[Address, Assembly] = {}
        self._taken_before = 0  # contents of earlier frames are no longer wanted
        self._size = 0
        self._closed = ""

    def deliver(self, packet: Packet) -> bool:
        """Take a sound packet, and return whether it was of any use."""
        with self._changed:
            if not self._taken_before <= packet.frame <= self._taken_before + _AHEAD or packet.tensor >= self._tensors:
                return False
            if self._size + len(packet.data) > self.most_bytes or self._packets >= self._most_packets:
                return False
            address = packet.frame, packet.kind, packet.tensor
            if not self._waiting.setdefault(address, Assembly(packet.parts)).add(packet):
                return False
            self._size += len(packet.data)
            self._packets += 1
            self._changed.notify_all()
            return True

    def take(self, frame: int, kind: Kind, tensor: int, deadline: float) -> bytes:
        """Wait for a content until ``time.monotonic()`` reaches the deadline, and take it out.

        Raises:
            LinkError: the content does not come in time, or the mailbox is closed.
        """
        address = frame, int(kind), tensor
        with self._changed:
            self._changed.wait_for(lambda: self._is_there(address) or self._closed, deadline - time.monotonic())
            if not self._is_there(address):
                raise LinkError(self._closed or f"{kind.name.lower()} of frame {frame} did not come in time")
            assembly = self._taken(address)
        content = assembly.content
        assert content is not None
        return content

    def forget_before(self, frame: int) -> None:
        """Drop everything of earlier frames, now and when it arrives later."""
        with self._changed:
            self._taken_before = frame
            for address in [address for address in self._waiting if address[0] < frame]:
                self._taken(address)

    def close(self, reason: str) -> None:
        """Make all waiting takers, now or later, fail for this reason."""
        with self._changed:
            self._closed = self._closed or reason
            self._changed.notify_all()

    def _taken(self, address: Address) -> Assembly:
        assembly = self._waiting.pop(address)
        self._size -= assembly.size
        self._packets -= assembly.packets
        return assembly

    def _is_there(self, address: Address) -> bool:
        assembly = self._waiting.get(address)
        return assembly is not None and assembly.is_complete
