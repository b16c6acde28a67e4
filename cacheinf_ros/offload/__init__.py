# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sharing work with a server: sessions that decide what to send and what to make of the answers, without doing I/O."""

from cacheinf_ros.offload.protocol.frames import FrameSession, OffloadConfig, Ticket, WireImage
from cacheinf_ros.offload.protocol.greeting import Identity, Work
from cacheinf_ros.offload.protocol.limited_link import LimitedLink, Trace, read_trace
from cacheinf_ros.offload.protocol.packets import Packet
from cacheinf_ros.offload.protocol.peer import Frame, FramePeer
from cacheinf_ros.offload.protocol.robot_session import NO_MEMORY, NO_PLACE, REFUSES, RobotSession
from cacheinf_ros.offload.protocol.row_service import RowWorker
from cacheinf_ros.offload.protocol.row_session import RowSession
from cacheinf_ros.offload.protocol.server_session import ServerSession, Worker
from cacheinf_ros.offload.protocol.whole_frame_service import WholeFrameWorker
from cacheinf_ros.offload.protocol.whole_frame_session import WholeFrameSession
from cacheinf_ros.offload.server_load import HeardLoad, ServerLoad, frames_at_once

__all__ = [
    "NO_MEMORY", "NO_PLACE", "REFUSES", "Frame", "FramePeer", "FrameSession", "HeardLoad", "Identity", "LimitedLink",
    "OffloadConfig", "Packet", "RobotSession", "RowSession", "RowWorker", "ServerLoad", "ServerSession", "Ticket",
    "Trace", "WholeFrameSession", "WholeFrameWorker", "WireImage", "Work", "Worker", "frames_at_once", "read_trace",
]  # fmt: skip

# Subpackages with an interface of their own.
__all__ += ["planning", "protocol", "searching"]
# Importing row_workers loads the planning, which a session does not need.
__all__ += ["row_workers"]
