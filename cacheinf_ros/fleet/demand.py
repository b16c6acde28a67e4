# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The demand of a session on the machine that computes it: predicted first, then measured; without torch."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

_KEPT = 64  # frames
_ENOUGH = 5  # frames after which measurements replace predictions
_SILENT_PERIODS, _SILENT_MS = 10, 5000.0  # without a frame, after which the robot seems to have stopped

HOST_BYTES = 400e6
"""The memory of a process beside weights and the feature maps of its sessions, in bytes."""
UNKNOWN_PERIOD_MS = 200.0
"""The period assumed for frames of a model that nobody has computed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The demand of one session on a machine.

    Attributes:
        network: hash of the model, see :class:`~cacheinf_ros.offload.Identity`.
        mean_ms, worst_ms: core time of a frame, on average and where everything has changed.
        period_ms: time between frames.
        deadline_ms: time after which the robot stops waiting.
        memory_bytes: memory of feature maps and weights.
        priority: sessions of higher priority go first.
    """

    network: str
    mean_ms: float
    worst_ms: float
    period_ms: float
    deadline_ms: float
    memory_bytes: float = 0.0
    priority: int = 0

    @property
    def cores(self) -> float:
        """The number of cores that the session keeps busy on average."""
        return self.mean_ms / self.period_ms


class DemandMeter:
    """Measures what a session's latest frames take; not thread-safe; times are seconds of any clock."""

    def __init__(self) -> None:
        self._took_ms: deque[float] = deque(maxlen=_KEPT)
        self._started_s: deque[float] = deque(maxlen=_KEPT)

    def start(self, now_s: float) -> None:
        """Note that a frame has begun."""
        self._started_s.append(now_s)

    def done(self, took_ms: float) -> None:
        """Note for how long a frame kept the machine busy."""
        self._took_ms.append(took_ms)

    def measured(self, predicted: Demand, now_s: float) -> Demand:
        """Return the measured demand, or the predicted one until enough frames were seen.

        A robot that sends no more frames, though it still greets, keeps fewer and fewer cores busy.
        """
        if len(self._took_ms) < _ENOUGH or len(self._started_s) < _ENOUGH:
            return predicted
        period_ms = 1e3 * float(np.median(np.diff(np.array(self._started_s))))
        silent_ms = 1e3 * (now_s - self._started_s[-1])
        if silent_ms > max(_SILENT_MS, _SILENT_PERIODS * period_ms):
            period_ms = silent_ms
        return Demand(
            network=predicted.network,
            mean_ms=max(0.01, float(np.mean(self._took_ms))),
            worst_ms=max(0.01, float(np.percentile(self._took_ms, 95))),
            period_ms=max(1.0, period_ms),
            deadline_ms=predicted.deadline_ms,
            memory_bytes=predicted.memory_bytes,
            priority=predicted.priority,
        )
