# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Transfers of tensors of one frame between robot and server, seen from either end."""

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
    """A server's report on a frame that it has finished.

    Attributes:
        took_ms: the time since the frame's start.
        waited_ms: the part of it spent waiting for rows of the robot.
        busy_ms: how long the serving thread computed, by its CPU time, so that other threads' work does not count; on a
            GPU the time without waiting.
        last_bytes: the size of the last rows, bytes.
    """

    took_ms: float
    waited_ms: float
    busy_ms: float
    last_bytes: int

    def encode(self) -> bytes:
        """Encode the report as the content of a DONE packet."""
        return _SERVED.pack(self.took_ms, self.waited_ms, self.busy_ms, self.last_bytes)

    @classmethod
    def decode(cls, content: bytes) -> Served | None:
        """Decode the content of a DONE packet; returns None where it is damaged, or its times are impossible."""
        if len(content) != _SERVED.size:
            return None
        took_ms, waited_ms, busy_ms, last_bytes = _SERVED.unpack(content)
        if not all(0 <= each_ms < math.inf for each_ms in (took_ms, waited_ms, busy_ms)):
            return None
        return cls(took_ms=took_ms, waited_ms=waited_ms, busy_ms=busy_ms, last_bytes=last_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wire(Channel):
    """A channel on which rows of tensors are sent.

    Attributes:
        space: describes the tensors.
        wire_type, compress: see :func:`.patches.encode_patch`.
        mailbox: takes what the other end sends.
    """

    space: PartitionSpace
    wire_type: WireType
    compress: bool
    mailbox: Mailbox


class Transfer:
    """The exchange of one frame.

    Attributes:
        sent, received: the bytes of rows so far.
        last_sent: the bytes of the last rows.
        waited_s: the time spent waiting for rows of the other end.
    """

    def __init__(self, wire: Wire, frame: int, deadline: float) -> None:
        """Prepare; rows are waited for until ``time.monotonic()`` reaches ``deadline``."""
        self.wire = wire
        self.frame = frame
        self.deadline = deadline
        self.sent = self.received = self.last_sent = 0
        self.waited_s = 0.0
        self._numbers = wire.space.numbers

    def send(self, tensor: str, patch: Patch) -> None:
        """Implement :meth:`Exchange.send`."""
        content = encode_patch(patch, self.wire.wire_type, compress=self.wire.compress)
        self.sent += len(content)
        self.last_sent = len(content)
        self.wire.put(Kind.ROWS, content, self.frame, self._numbers[tensor])

    def receive(self, tensor: str, rows: Rows) -> Patch:
        """Implement :meth:`Exchange.receive`."""
        started = time.monotonic()
        content = self.wire.mailbox.take(self.frame, Kind.ROWS, self._numbers[tensor], self.deadline)
        self.waited_s += time.monotonic() - started
        self.received += len(content)
        _, width, channels = self.wire.space.shapes[tensor]
        try:
            return decode_patch(content, rows, width, channels, are_levels=tensor in self.wire.space.levels)
        except MessageError as error:
            raise LinkError(f"{tensor}: {error}") from None
