# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Encode packets as bytes for a connection within the fleet, and decode them."""

from __future__ import annotations

import struct

from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload import Packet

_HEADER = struct.Struct("<BIIIIIIB")  # kind, epoch, frame, tensor, part, parts, checksum, length of the session's name


def packet_bytes(packet: Packet) -> bytes:
    """Encode a packet as bytes."""
    name = packet.session.encode()
    header = _HEADER.pack(
        packet.kind, packet.epoch, packet.frame, packet.tensor, packet.part, packet.parts, packet.checksum, len(name)
    )
    return b"".join((header, name, packet.data))


def packet_of(content: bytes) -> Packet:
    """Decode a packet; raises :class:`MessageError` where it is cut off. The session checks its content."""
    if len(content) < _HEADER.size:
        raise MessageError(f"a packet of {len(content)} bytes is cut off")
    kind, epoch, frame, tensor, part, parts, checksum, length = _HEADER.unpack_from(content)
    end = _HEADER.size + length
    if len(content) < end:
        raise MessageError(f"a packet of {len(content)} bytes is cut off")
    try:
        name = content[_HEADER.size : end].decode("ascii")
    except UnicodeDecodeError:
        raise MessageError("a packet's session has no name") from None
    return Packet(
        session=name, epoch=epoch, kind=kind, frame=frame, tensor=tensor, part=part, parts=parts, data=content[end:],
        checksum=checksum,
    )  # fmt: skip
