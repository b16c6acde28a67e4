"""Sharing work with a server: sessions that decide what to send and what to make of the answers, without doing I/O."""

from cacheinf_ros.offload.frames import FrameSession, OffloadConfig, Ticket, WireImage, WireType
from cacheinf_ros.offload.greeting import Identity
from cacheinf_ros.offload.packets import Packet
from cacheinf_ros.offload.partner import Frame, FramePartner
from cacheinf_ros.offload.robot import RobotSession
from cacheinf_ros.offload.server import ServerSession

__all__ = [
    "Frame", "FramePartner", "FrameSession", "Identity", "OffloadConfig", "Packet", "RobotSession", "ServerSession",
    "Ticket", "WireImage", "WireType",
]  # fmt: skip
