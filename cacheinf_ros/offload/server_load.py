# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How busy a server is, measured by what it does for robots.

It tells the robots, so that those leave that can do without it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.offload.protocol.load_content import load_content, load_from
from cacheinf_ros.offload.protocol.packets import Kind, Packet, Send, cut
from cacheinf_ros.offload.protocol.transfer import Served
from cacheinf_ros.offload.protocol.whole_frame_service import Compute

_WINDOW_S = 5.0
_BELIEVED_S = 5.0  # how long a stated load is believed: after that its server may be gone


class BusyMeter:
    """Measures the share of its time that a server spent on frames in the last seconds.

    Not thread-safe; the seconds may be those of any clock.
    """

    def __init__(self, at_once: float) -> None:
        """Start empty; ``at_once`` is how many frames can be computed at the same time, each as fast as alone."""
        self._at_once = at_once
        self._frames: deque[tuple[float, float]] = deque()  # when each ended, and what it took

    def add(self, took_s: float, now_s: float) -> None:
        """Add a frame that has ended."""
        self._frames.append((now_s, min(took_s, _WINDOW_S)))

    def share(self, now_s: float) -> float:
        """Return the share of its time that the server was busy, at most 1."""
        while self._frames and self._frames[0][0] <= now_s - _WINDOW_S:
            self._frames.popleft()
        return min(1.0, sum(took_s for _, took_s in self._frames) / (_WINDOW_S * self._at_once))


class ServerLoad:
    """Watches what a server does, and states how busy it is; may be used from several threads."""

    def __init__(self, at_once: float, fleet: Callable[[], float] | None = None) -> None:
        """Prepare.

        Args:
            at_once: see :class:`BusyMeter`.
            fleet: returns how busy the fleet that computes rows is, 0 to 1; None: this process computes them.
        """
        self._meter = BusyMeter(at_once)
        self._fleet = fleet
        self._lock = threading.Lock()

    @property
    def busy(self) -> float:
        """How busy this process or the fleet is, whichever has less time left, from 0 to 1."""
        with self._lock:
            own = self._meter.share(time.monotonic())
        return own if self._fleet is None else max(own, self._fleet())

    def watched(self, send: Send) -> Send:
        """Wrap ``send`` so that the time that rows have taken is counted where this process computes them."""
        if self._fleet is not None:
            return send

        def send_and_count(packet: Packet) -> None:
            send(packet)
            served = Served.decode(packet.data) if packet.kind == Kind.DONE else None
            if served is not None:
                self._add(served.busy_ms / 1e3)

        return send_and_count

    def timed(self, compute: Compute) -> Compute:
        """Wrap ``compute`` so that the time it takes is counted."""

        def compute_and_count(content: bytes) -> bytes:
            started = time.monotonic()
            try:
                return compute(content)
            finally:
                self._add(time.monotonic() - started)

        return compute_and_count

    def packets(self, session: str) -> Iterator[Packet]:
        """Yield the packets that tell a session's robot how busy the server is."""
        return cut(load_content(self.busy), session=session, epoch=0, kind=Kind.LOAD)

    def _add(self, took_s: float) -> None:
        with self._lock:
            self._meter.add(max(0.0, took_s), time.monotonic())


class HeardLoad:
    """Keeps the load that servers have stated last; not thread-safe, seconds of any clock."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[float, float]] = {}  # by session: when it was stated, and how busy

    def hear(self, packet: Packet, now_s: float) -> bool:
        """Take a packet, and return whether it was of kind LOAD, which nobody else needs."""
        if packet.kind != Kind.LOAD:
            return False
        busy = load_from(packet.data) if packet.is_sound else None
        if busy is not None:
            self._heard[packet.session] = now_s, busy
        return True

    def busy(self, now_s: float) -> float:
        """Return how busy the busiest server is, from 0 to 1; 0 where none has said anything for a while."""
        self._heard = {name: heard for name, heard in self._heard.items() if now_s - heard[0] <= _BELIEVED_S}
        return max((busy for _, busy in self._heard.values()), default=0.0)


def frames_at_once(config: EngineConfig) -> float:
    """Return how many frames engines of this configuration compute at the same time, each as fast as alone."""
    if not config.device.startswith("cpu"):
        return 1.0
    return max(1.0, len(os.sched_getaffinity(0)) / config.threads)
