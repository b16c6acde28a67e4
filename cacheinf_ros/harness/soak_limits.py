# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Judges a soak by what processes grew and how soon robots recovered, where the user sets limits."""

from __future__ import annotations

import numpy as np

from cacheinf_ros.config import Config, setting
from cacheinf_ros.harness.resources import Slope
from cacheinf_ros.harness.soak_report import SoakReport

_ERRORS = 2.0  # standard errors by which a slope must exceed its limit
_WHOLE = 0.9  # share of the soak that a process must have lived: the memory of young ones still fills
_MB = 1e6


class SoakLimits(Config):
    """The limits that a soak is judged by."""

    most_growth_mb: float = setting(
        0.0, "fail where a node that lived throughout, or the server at rest, grew by more MB an hour; 0: never", low=0
    )
    most_recovery_s: float = setting(
        0.0, "fail where robots took longer than this to recover in more than 1 % of all cases, s; 0: never", low=0
    )

    def exceeded(self, report: SoakReport, duration_s: float) -> list[str]:
        """Return what exceeded its limit, one line each.

        Memory is judged after the first quarter, by lines that must exceed the limit by two standard errors. The
        server's counts while nobody is there, because it grows with the number of its robots; where a soak has too few
        such moments, the server is not judged.
        """
        slopes = {each.name: each.memory for each in report.growth if each.lived_s >= _WHOLE * duration_s}
        slopes["server"] = report.server.growth
        lines = [
            f"{name} grew by {slope.per_hour / _MB:.1f} +- {slope.error_per_hour / _MB:.1f} MB an hour"
            for name, slope in slopes.items()
            if slope is not None and self._is_growth(slope)
        ]
        late = float(np.percentile([seconds for _, seconds in report.recovery_s] or [0.0], 99))
        if 0 < self.most_recovery_s < late:
            lines.append(f"robots took {late:.2f} s or more to recover in 1 % of all cases")
        return lines

    def _is_growth(self, slope: Slope) -> bool:
        beyond = slope.per_hour - _ERRORS * slope.error_per_hour
        return 0 < self.most_growth_mb * _MB < beyond
