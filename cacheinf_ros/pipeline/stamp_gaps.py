# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Counts a camera's frames that never came, by the stamps of those that did."""

from __future__ import annotations

from collections import deque
from statistics import median

_KNOWN = 8  # periods before a gap that say what the camera's period is
_CONFIRMED = 5  # periods after it that must be the same
_TOLERANCE = 0.25  # of a period
_PAUSE = 10  # periods: a longer gap is a pause


class StampGaps:
    """Sees single frames missing in the stream of a camera that runs at a steady rate.

    A gap counts as missing frames only with hindsight, when the camera goes on with the period that it had before: one
    that slows down, for a longer exposure say, or pauses, loses nothing. Where the rate is not steady nothing counts.
    """

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._passed: deque[int] = deque(maxlen=_KNOWN + 1 + _CONFIRMED)

    def reset(self) -> None:
        """Forget the stamps so far, after a frame whose stamp is not known."""
        self._last_ns = None
        self._passed.clear()

    def add(self, stamp_ns: int) -> int:
        """Take the stamp of the next frame; returns how many frames are now known to be missing."""
        last, self._last_ns = self._last_ns, stamp_ns
        if last is None:
            return 0
        if stamp_ns <= last:
            self._passed.clear()
            return 0
        self._passed.append(stamp_ns - last)
        return self._missing() if len(self._passed) == self._passed.maxlen else 0

    def _missing(self) -> int:
        """Frames missing in the gap that has five periods behind it."""
        *before, gap = list(self._passed)[: _KNOWN + 1]
        after = list(self._passed)[_KNOWN + 1 :]
        period = median(before)
        count = round(gap / period) - 1
        if not 0 < count < _PAUSE or abs(gap / period - (count + 1)) > _TOLERANCE:
            return 0
        return count if _mostly(before, period) and _mostly(after, period) else 0


def _mostly(passed: list[int], period: float) -> bool:
    """Whether more than half of the stamps are one period apart."""
    return sum(abs(each / period - 1) <= _TOLERANCE for each in passed) > len(passed) / 2
