# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tensors of one frame on their way between robot and server, seen from either end."""

from __future__ import annotations

import math
import struct
import time
from dataclasses import dataclass

from cacheinf_ros.engine import PartitionSpace, Patch, Rows
from cacheinf_ros.errors import LinkError, MessageError
from cacheinf_ros.offload.protocol.frames import WireType
from cacheinf_ros.offload.protocol.mailbox import Mailbox
from cacheinf_ros.offload.protocol.packets import Channel, Kind
from cacheinf_ros.offload.protocol.patches import decode_patch, encode_patch

_SERVED = struct.Struct("<dddI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a server reports of a frame that it has done.

    Attributes:
        took_ms: from the frame's start.
        waited_ms: of these, for rows of the robot.
        busy_ms: that the serving thread computed, by the processor's clock: what others do meanwhile does not count; on
            a GPU what it took without waiting.
        last_bytes: of the last rows.
    """

    took_ms: float
    waited_ms: float
    busy_ms: float
    last_bytes: int

    def encode(self) -> bytes:
        """The content of a packet of kind DONE."""
        return _SERVED.pack(self.took_ms, self.waited_ms, self.busy_ms, self.last_bytes)

    @classmethod
    def decode(cls, content: bytes) -> Served | None:
        """Read it; None: it is damaged, or what it says is no time."""
        if len(content) != _SERVED.size:
            return None
        took_ms, waited_ms, busy_ms, last_bytes = _SERVED.unpack(content)
        if not all(0 <= each_ms < math.inf for each_ms in (took_ms, waited_ms, busy_ms)):
            return None
        return cls(took_ms=took_ms, waited_ms=waited_ms, busy_ms=busy_ms, last_bytes=last_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wire(Channel):
    """A channel on which rows of tensors cross.

    Attributes:
        space: what the tensors are like.
        wire_type, compress: see :func:`.patches.encode_patch`.
        mailbox: where what the other end sends arrives.
    """

    space: PartitionSpace
    wire_type: WireType
    compress: bool
    mailbox: Mailbox


class Transfer:
    """The exchange of one frame.

    Attributes:
        sent, received: bytes of rows so far.
        last_sent: bytes of the last rows.
        waited_s: for rows of the other end.
    """

    def __init__(self, wire: Wire, frame: int, deadline: float) -> None:
        """``deadline``: until ``time.monotonic()`` is that, rows are waited for."""
        self.wire = wire
        self.frame = frame
        self.deadline = deadline
        self.sent = self.received = self.last_sent = 0
        self.waited_s = 0.0
        self._numbers = wire.space.numbers

    def send(self, tensor: str, patch: Patch) -> None:
        """As :meth:`Exchange.send`."""
        content = encode_patch(patch, self.wire.wire_type, compress=self.wire.compress)
        self.sent += len(content)
        self.last_sent = len(content)
        self.wire.put(Kind.ROWS, content, self.frame, self._numbers[tensor])

    def receive(self, tensor: str, rows: Rows) -> Patch:
        """As :meth:`Exchange.receive`."""
        started = time.monotonic()
        content = self.wire.mailbox.take(self.frame, Kind.ROWS, self._numbers[tensor], self.deadline)
        self.waited_s += time.monotonic() - started
        self.received += len(content)
        _, width, channels = self.wire.space.shapes[tensor]
        try:
            return decode_patch(content, rows, width, channels, are_levels=tensor in self.wire.space.levels)
        except MessageError as error:
            raise LinkError(f"{tensor}: {error}") from None
