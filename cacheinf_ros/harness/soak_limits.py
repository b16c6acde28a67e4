# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Judges a soak by what processes grew and how soon robots recovered, where the user sets limits."""

from __future__ import annotations

from cacheinf_ros.config import Config, setting
from cacheinf_ros.harness.resources import Slope
from cacheinf_ros.harness.soak_report import SoakReport

_ERRORS = 2.0  # standard errors by which a slope must exceed its limit
_LEAST_SAMPLES = 5
_WHOLE = 0.9  # share of the soak that a process must have lived: the memory of young ones still fills
_LATE_SHARE = 0.01  # of all recoveries that may be late


class SoakLimits(Config):
    """The limits that a soak is judged by."""

    most_growth_mb_per_hour: float = setting(
        0.0,
        "fail where a process that lived throughout, or the server at rest, grew by more than that; 0: never",
        low=0,
    )
    most_recovery_s: float = setting(
        0.0, "fail where robots took longer than this to recover in more than 1 % of all cases, s; 0: never", low=0
    )

    def exceeded(self, report: SoakReport) -> list[str]:
        """Return what exceeded its limit, one line each.

        Memory is judged after the first quarter, by lines that must exceed the limit by two standard errors. The
        server's counts while nobody is there, because it grows with the number of its robots.
        """
        lines = [
            f"{name} grew by {slope.per_hour:.1f} +- {slope.error_per_hour:.1f} MB an hour"
            for name, slope in _slopes(report).items()
            if slope is not None and self._is_growth(slope)
        ]
        late = [seconds for _, seconds in report.recovery_s if seconds > self.most_recovery_s]
        if self.most_recovery_s and len(late) > _LATE_SHARE * len(report.recovery_s):
            share = len(late) / len(report.recovery_s)
            lines.append(f"{share:.1%} of all recoveries took more than {self.most_recovery_s:g} s")
        return lines

    def not_judged(self, report: SoakReport) -> list[str]:
        """Return what has a limit and is not known, one line each."""
        lines = []
        if self.most_growth_mb_per_hour:
            unknown = (name for name, slope in _slopes(report).items() if slope is None)
            lines += [f"{name}'s growth, for too few samples" for name in unknown]
        if self.most_recovery_s and not report.recovery_s:
            lines.append("recovery, as nobody had to")
        return lines

    def _is_growth(self, slope: Slope) -> bool:
        return 0 < self.most_growth_mb_per_hour < slope.per_hour - _ERRORS * slope.error_per_hour


def _slopes(report: SoakReport) -> dict[str, Slope | None]:
    """Return the slopes of resident memory that are judged, in MB, by process; None: too few samples."""
    longest_s = max((each.lived_s for each in report.growth), default=0.0)
    slopes = {each.name: each.memory_slope for each in report.growth if each.lived_s >= _WHOLE * longest_s}
    slopes["server"] = report.server.growth
    return {name: slope.in_mb if slope and slope.samples >= _LEAST_SAMPLES else None for name, slope in slopes.items()}
