# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server's part in computing whole frames that a robot sends."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.offload.protocol.greeting import Hello
from cacheinf_ros.offload.protocol.newest import Arrived, NewestContent
from cacheinf_ros.offload.protocol.packets import Channel, Kind, Packet
from cacheinf_ros.offload.protocol.server_session import IDLE_S

_LARGEST_FRAME = 2**25  # bytes

Compute = Callable[[bytes], bytes]
"""A function that computes the content of a RESULT packet from that of a FRAME packet."""


class WholeFrameWorker:
    """Computes whole frames; implements :class:`.server_session.Worker`."""

    def __init__(self, compute: Compute) -> None:
        """Prepare; ``compute`` raises :class:`CacheinfError` where a frame fails, which the robot is told."""
        self.profile: list[list[float]] = []
        self._compute = compute

    def begin(self, hello: Hello, channel: Channel) -> WholeFrameService:
        """Implement :meth:`Worker.begin`; the model's own cache stays, as it relies on nothing that the robot knows."""
        return WholeFrameService(self._compute, channel)


class WholeFrameService:
    """Serves one epoch, in which the latest frame wins; implements :class:`.server_session.Service`."""

    def __init__(self, compute: Compute, channel: Channel) -> None:
        self.frame = 0
        self._compute = compute
        self._channel = channel
        self._changed = threading.Condition()
        self._frames = NewestContent(Kind.FRAME, _LARGEST_FRAME)
        self._arrived: Arrived | None = None
        self._is_closed = False

    def deliver(self, packet: Packet) -> None:
        """Implement :meth:`Service.deliver`."""
        with self._changed:
            self._frames.deliver(packet)
            self._arrived = self._frames.take() or self._arrived
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """Implement :meth:`Service.close`."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def serve(self) -> None:
        """Implement :meth:`Service.serve`; an error in a frame ends only that frame."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrived is not None or self._is_closed, IDLE_S)
            arrived, self._arrived = self._arrived, None
        if arrived is None:
            return
        try:
            self._channel.put(Kind.RESULT, self._compute(arrived.content), arrived.frame)
        except CacheinfError as error:
            self._channel.put(Kind.FAILED, str(error).encode(), arrived.frame)
