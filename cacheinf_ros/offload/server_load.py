# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How busy a server is, measured by what it does for robots. It tells them, and those leave who can do without it."""

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
_BELIEVED_S = 5.0  # after which a server that said how busy it is may be gone


class BusyMeter:
    """Which share of a server's time frames have taken, of the last seconds. Not thread-safe; seconds of any clock."""

    def __init__(self, at_once: float) -> None:
        """``at_once``: how many frames can be computed at the same time, each as fast as alone."""
        self._at_once = at_once
        self._frames: deque[tuple[float, float]] = deque()  # when each ended, and what it took

    def add(self, took_s: float, now_s: float) -> None:
        """A frame has ended."""
        self._frames.append((now_s, min(took_s, _WINDOW_S)))

    def share(self, now_s: float) -> float:
        """At most 1."""
        while self._frames and self._frames[0][0] <= now_s - _WINDOW_S:
            self._frames.popleft()
        return min(1.0, sum(took_s for _, took_s in self._frames) / (_WINDOW_S * self._at_once))


class ServerLoad:
    """Watches what a server does, and says how busy it is. May be used from several threads."""

    def __init__(self, at_once: float, fleet: Callable[[], float] | None = None) -> None:
        """Prepare.

        Args:
            at_once: see :class:`BusyMeter`.
            fleet: how busy those are who compute rows in place of this process, 0 to 1; None: it does.
        """
        self._meter = BusyMeter(at_once)
        self._fleet = fleet
        self._lock = threading.Lock()

    @property
    def busy(self) -> float:
        """From 0 to 1: of this process, or of the fleet, whichever has less time left."""
        with self._lock:
            own = self._meter.share(time.monotonic())
        return own if self._fleet is None else max(own, self._fleet())

    def watched(self, send: Send) -> Send:
        """``send``, with what it says that rows have taken counted where this process has computed them."""
        if self._fleet is not None:
            return send

        def send_and_count(packet: Packet) -> None:
            send(packet)
            served = Served.decode(packet.data) if packet.kind == Kind.DONE else None
            if served is not None:
                self._add(served.busy_ms / 1e3)

        return send_and_count

    def timed(self, compute: Compute) -> Compute:
        """``compute``, with what it takes counted."""

        def compute_and_count(content: bytes) -> bytes:
            started = time.monotonic()
            try:
                return compute(content)
            finally:
                self._add(time.monotonic() - started)

        return compute_and_count

    def packets(self, session: str) -> Iterator[Packet]:
        """What tells a session's robot."""
        return cut(load_content(self.busy), session=session, epoch=0, kind=Kind.LOAD)

    def _add(self, took_s: float) -> None:
        with self._lock:
            self._meter.add(max(0.0, took_s), time.monotonic())


class HeardLoad:
    """Keeps what servers have said last of their load. Not thread-safe; seconds of any clock."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[float, float]] = {}  # by session, when and what

    def hear(self, packet: Packet, now_s: float) -> bool:
        """Take a packet; whether it was of this kind, so that it is nobody else's."""
        if packet.kind != Kind.LOAD:
            return False
        busy = load_from(packet.data) if packet.is_sound else None
        if busy is not None:
            self._heard[packet.session] = now_s, busy
        return True

    def busy(self, now_s: float) -> float:
        """From 0 to 1, of the busiest; 0: none has said anything for a while."""
        self._heard = {name: heard for name, heard in self._heard.items() if now_s - heard[0] <= _BELIEVED_S}
        return max((busy for _, busy in self._heard.values()), default=0.0)


def frames_at_once(config: EngineConfig) -> float:
    """How many frames engines of this configuration compute at the same time, each as fast as alone."""
    if not config.device.startswith("cpu"):
        return 1.0
    return max(1.0, len(os.sched_getaffinity(0)) / config.threads)
