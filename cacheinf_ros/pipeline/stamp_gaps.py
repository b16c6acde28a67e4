# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Counts a camera's frames that never came, by the stamps of those that did."""

from __future__ import annotations

from collections import deque

_PERIODS = 31
_ENOUGH = 8  # periods, before a gap is called one
_TOLERANCE = 0.25  # of a period
_PAUSE_NS = 5_000_000_000


class StampGaps:
    """Knows the period of a camera that runs at a steady rate, and what is missing between two of its frames.

    Where the rate is not steady nothing is counted: a camera with automatic exposure may slow down, and a pause is none
    of the network's doing.
    """

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._periods: deque[int] = deque(maxlen=_PERIODS)

    def add(self, stamp_ns: int) -> int:
        """Take the stamp of the next frame; returns how many frames are missing before it."""
        last, self._last_ns = self._last_ns, stamp_ns
        if last is None:
            return 0
        passed = stamp_ns - last
        if not 0 < passed <= _PAUSE_NS:
            self._periods.clear()
            return 0
        self._periods.append(passed)
        return self._missing(passed)

    def _missing(self, passed_ns: int) -> int:
        if len(self._periods) < _ENOUGH:
            return 0
        ordered = sorted(self._periods)
        period = ordered[len(ordered) // 4]  # gaps are longer: not the middle
        steady = sum(abs(p / period - round(p / period)) <= _TOLERANCE for p in ordered)
        if period == 0 or steady < 0.8 * len(ordered):
            return 0
        return max(0, round(passed_ns / period) - 1)
