# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How long frames took compared with what was predicted, for each way in which they were divided.

Of many schedules the one is chosen that is predicted to end soonest, which is more often than not one whose prediction
is too good, the more so the more schedules there are to choose from. Therefore dividing frames by rows was slower than
a cut by layers, although every cut was among the choices. Of schedules that were tried, more is known.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

_NEW = 0.2  # weight of a new frame in the record of its schedule
_KEPT = 0.998  # what a schedule keeps of its record with each frame computed otherwise, so that it may be tried again
_MOST = math.log(3.0)  # a larger deviation is an outlier, and counts as this
_KNOWN = 200  # the largest number of schedules that are kept


class TrackRecord:
    """Keeps, for each schedule, the logarithm of what frames took over what was predicted."""

    def __init__(self) -> None:
        self._found: dict[Hashable, float] = {}

    def observe(self, schedule: Hashable, predicted_ms: float, took_ms: float) -> None:
        """Take note of a frame; what is known of all other schedules slowly moves towards the average."""
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
        """Return how many times longer than predicted each schedule takes; one never tried counts as average."""
        usual = self._usual
        return [math.exp(self._found.get(schedule, usual)) for schedule in schedules]

    @property
    def _usual(self) -> float:
        """The average over all schedules and one more that is as predicted.

        The extra one is there because a single schedule does not say whether only it is predicted too well, or all are.
        """
        return sum(self._found.values()) / (1 + len(self._found))
