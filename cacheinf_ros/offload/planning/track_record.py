# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How long frames took beside what was predicted of them, for each way in which they were divided.

Of many schedules the one is chosen that is predicted to end soonest, and that is more often than not one whose
prediction is too good: the more schedules there are to choose from, the worse. So dividing frames by rows was slower
than a cut by layers although every cut was among the choices. What was tried is known better.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

_NEW = 0.2  # weight of a frame
_KEPT = 0.998  # of what a schedule is known for, with each frame that was computed otherwise: it may be tried again
_MOST = math.log(3.0)  # what took longer or shorter by more is an accident
_KNOWN = 200  # schedules


class TrackRecord:
    """Keeps, by schedule, the logarithm of what frames took over what was predicted."""

    def __init__(self) -> None:
        self._found: dict[Hashable, float] = {}

    def observe(self, schedule: Hashable, predicted_ms: float, took_ms: float) -> None:
        """A frame was computed so. Others are slowly forgotten, towards what is usual."""
        if predicted_ms <= 0 or took_ms <= 0:
            return
        seen = min(max(math.log(took_ms / predicted_ms), -_MOST), _MOST)
        usual = self._usual
        for other, found in self._found.items():
            self._found[other] = usual + _KEPT * (found - usual)
        known = self._found.pop(schedule, None)
        if known is None and len(self._found) == _KNOWN:
            del self._found[next(iter(self._found))]
        self._found[schedule] = seen if known is None else known + _NEW * (seen - known)

    def factors(self, schedules: Sequence[Hashable]) -> list[float]:
        """How many times longer than predicted each takes; what was never tried, as long as is usual."""
        usual = self._usual
        return [math.exp(self._found.get(schedule, usual)) for schedule in schedules]

    @property
    def _usual(self) -> float:
        """Average all, and one more that is as predicted: a single one does not say whether it or all are praised."""
        return sum(self._found.values()) / (1 + len(self._found))
