# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the frames of a relayed session take, and what the session will therefore demand of its process."""

from __future__ import annotations

import threading
import time
from collections import deque

from cacheinf_ros.fleet.demand import Demand, DemandMeter
from cacheinf_ros.offload.protocol.transfer import Served

_KEPT = 64  # frames


class RelayedFrames:
    """Measures the frames of one session; may be used from several threads.

    Attributes:
        has_frame: whether a frame has begun and not ended.
        predicted: the session's demand by the profile of its process; None: not known yet.
    """

    def __init__(self) -> None:
        """Begin without a frame."""
        self.has_frame = False
        self.predicted: Demand | None = None
        self._lock = threading.Lock()
        self._meter = DemandMeter()
        self._began_s = 0.0
        self._took_ms: deque[float] = deque(maxlen=_KEPT)

    @property
    def demand(self) -> Demand | None:
        """The session's demand, by what was measured so far; None: not known yet."""
        with self._lock:
            return self._meter.measured(self.predicted, time.monotonic()) if self.predicted else None

    @property
    def took_ms(self) -> list[float]:
        """The times of the last frames, ms, from the robot's first packet to the process's last."""
        with self._lock:
            return list(self._took_ms)

    def begin(self) -> float:
        """Begin a frame; returns the present time, seconds of the steady clock."""
        with self._lock:
            self._began_s = time.monotonic()
            self.has_frame = True
            self._meter.start(self._began_s)
            return self._began_s

    def end(self, served: Served) -> None:
        """End the frame, of which the process says how long it took."""
        with self._lock:
            self._meter.done(served.busy_ms)
            self.has_frame = False
            self._took_ms.append(1e3 * (time.monotonic() - self._began_s))

    def give_up(self) -> None:
        """End the frame, if there is one, without a result."""
        self.has_frame = False
