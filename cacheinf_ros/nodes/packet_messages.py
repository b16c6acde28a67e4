# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Packets of sessions between robot and server <-> messages."""

from __future__ import annotations

from cacheinf_ros.msg import SplitPacket
from cacheinf_ros.nodes.conversions import byte_array
from cacheinf_ros.offload import Packet


def packet_message(packet: Packet) -> SplitPacket:
    """A packet of a session between robot and server."""
    return SplitPacket(
        session=packet.session, epoch=packet.epoch, frame=packet.frame, kind=packet.kind, tensor=packet.tensor,
        part=packet.part, parts=packet.parts, checksum=packet.checksum, data=byte_array(packet.data),
    )  # fmt: skip


def packet_from(message: SplitPacket) -> Packet:
    """The opposite; whether it is sound is for the session to see."""
    return Packet(
        session=message.session, epoch=message.epoch, frame=message.frame, kind=message.kind, tensor=message.tensor,
        part=message.part, parts=message.parts, checksum=message.checksum, data=bytes(message.data),
    )  # fmt: skip
