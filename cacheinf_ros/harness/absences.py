# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The times in which a robot could not answer: its process was stopped, or its camera sent nothing."""

from __future__ import annotations


class Absences:
    """Time spans, which may overlap, in seconds of any one clock."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []

    def add(self, begin_s: float, end_s: float) -> None:
        """Add a span."""
        self._spans.append((begin_s, end_s))

    def __or__(self, other: Absences) -> Absences:
        both = Absences()
        both._spans = self._spans + other._spans
        return both

    def within(self, begin_s: float, end_s: float) -> float:
        """Return how many seconds of a span are covered by any of the absences."""
        covered_s, until_s = 0.0, begin_s
        for first, last in sorted(self._spans):
            last = min(last, end_s)
            covered_s += max(0.0, last - max(first, until_s))
            until_s = max(until_s, last)
        return covered_s
