# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decides when everything should be computed because the cache would cost more than it saves."""

from __future__ import annotations

from collections.abc import Callable

_BUCKETS = 10  # equal ranges of the share of the input that changed
_SMOOTHING = 0.3  # weight of the newest time
_MARGIN = 1.03  # a cache that is slower by less keeps being used: it may pay on the next frame
_SMALLEST_MS = 0.5  # differences below are noise
_FRAMES = 5  # in a bucket before it is judged
_RETRY = 20  # dense frames after which the cache gets another chance


class DenseSwitch:
    """Compares how long frames with about as much change took with the cache, and frames without it."""

    def __init__(self) -> None:
        self._dense_ms: float | None = None
        self._cached: dict[int, tuple[int, float]] = {}  # by bucket: frames, milliseconds
        self._dense_in_a_row = 0

    def prefers_dense(self, changed_share: Callable[[], float]) -> bool:
        """Tell whether a frame should be computed completely, given how much of the input it changed.

        Args:
            changed_share: returns the share of the input that changed; called only where it matters, as a device may
                have to be waited for.
        """
        if self._dense_ms is None or self._dense_in_a_row >= _RETRY:
            return False
        limit_ms = max(_MARGIN * self._dense_ms, self._dense_ms + _SMALLEST_MS)
        slow = {bucket for bucket, (frames, ms) in self._cached.items() if frames >= _FRAMES and ms > limit_ms}
        return bool(slow) and _bucket(changed_share()) in slow

    def observe_cached(self, changed_share: float, milliseconds: float) -> None:
        """Record the time of a frame that was computed with the cache."""
        self._dense_in_a_row = 0
        frames, old = self._cached.get(_bucket(changed_share), (0, milliseconds))
        self._cached[_bucket(changed_share)] = (frames + 1, _smoothed(old, milliseconds))

    def observe_dense(self, milliseconds: float) -> None:
        """Record the time of a frame that was computed completely."""
        self._dense_in_a_row += 1
        self._dense_ms = milliseconds if self._dense_ms is None else _smoothed(self._dense_ms, milliseconds)


def _bucket(share: float) -> int:
    return int(share * _BUCKETS)


def _smoothed(old: float, new: float) -> float:
    return (1 - _SMOOTHING) * old + _SMOOTHING * new
