# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What one model has answered lately, wherever it was computed, and what it has answered for other robots."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from cacheinf_ros.catalog.specialists.dominance import ClassWindow


class SeenClasses:
    """Counts the classes of a model's answers; one thread counts and reads, any may call :meth:`news`.

    Attributes:
        latest: the window in which a skew is looked for.
        recent: the shorter window that shows whether a skew has ended.
        others: returns how often other robots have lately seen each class.
        restarts: how often time went back.
    """

    def __init__(self, window_s: float, recent_s: float, others: Callable[[], Counter[int]] = Counter) -> None:
        """Begin with no answers; ``others`` returns how often other robots have lately seen each class."""
        self.latest, self.recent = ClassWindow(window_s), ClassWindow(recent_s)
        self.others = others
        self.restarts = 0
        self._now_s = float("-inf")
        self._full_s = window_s / 2
        self._lock = threading.Lock()
        self._is_new = False

    @property
    def is_long(self) -> bool:
        """Whether the answers are from so long a time, half of the window, that they say what the camera sees."""
        return self.latest.span_s >= self._full_s

    def add(self, class_id: int, now_s: float) -> None:
        """Count an answer; where time went back, the stream has restarted, and earlier answers are forgotten."""
        self.restarts += now_s < self._now_s
        self._now_s = now_s
        with self._lock:
            self.latest.add(class_id, now_s)
            self.recent.add(class_id, now_s)
            self._is_new = True

    def news(self) -> dict[int, int]:
        """Return how often each class was answered lately, for other robots.

        Empty where no answer has come since the last call, or all came within so short a time that one view of the
        camera may make up most of them.
        """
        with self._lock:
            if not self._is_new or not self.is_long:
                return {}
            self._is_new = False
            return {class_id: count for class_id, count in self.latest.counts.items() if count > 0}
