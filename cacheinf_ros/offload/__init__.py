"""Sending work to a server: sessions that decide what to send and what to make of the answers, without doing I/O."""

from cacheinf_ros.offload.frames import FrameSession, OffloadConfig, Ticket, WireImage

__all__ = ["FrameSession", "OffloadConfig", "Ticket", "WireImage"]
