# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a session asks of the machine that computes it: predicted as partitions are, then measured. No torch here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

_KEPT = 64  # frames
_ENOUGH = 5  # frames, after which measurements count

HOST_BYTES = 400e6
"""Memory of a process without a session."""
UNKNOWN_PERIOD_MS = 200.0
"""Between frames of a model that nobody has computed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one session asks of a machine.

    Attributes:
        network: hash of the model, see :class:`~cacheinf_ros.offload.Identity`.
        mean_ms, worst_ms: that a frame keeps one core busy, usually and where everything has changed.
        period_ms: between frames.
        deadline_ms: after which the robot does not wait any more.
        memory_bytes: of feature maps and weights.
        priority: the higher goes first.
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
        """How many it keeps busy, on average."""
        return self.mean_ms / self.period_ms


class DemandMeter:
    """What the frames of a session really take, of the last ones. Not thread-safe; times are seconds of any clock."""

    def __init__(self) -> None:
        self._took_ms: deque[float] = deque(maxlen=_KEPT)
        self._started_s: deque[float] = deque(maxlen=_KEPT)

    def start(self, now_s: float) -> None:
        """A frame has begun."""
        self._started_s.append(now_s)

    def done(self, took_ms: float) -> None:
        """A frame kept the machine busy for so long."""
        self._took_ms.append(took_ms)

    def measured(self, predicted: Demand) -> Demand:
        """The demand, as far as it is known better than predicted."""
        if len(self._took_ms) < _ENOUGH or len(self._started_s) < _ENOUGH:
            return predicted
        between = np.diff(np.array(self._started_s))
        return Demand(
            network=predicted.network,
            mean_ms=max(0.01, float(np.mean(self._took_ms))),
            worst_ms=max(0.01, float(np.percentile(self._took_ms, 95))),
            period_ms=max(1.0, 1e3 * float(np.median(between))),
            deadline_ms=predicted.deadline_ms,
            memory_bytes=predicted.memory_bytes,
            priority=predicted.priority,
        )
