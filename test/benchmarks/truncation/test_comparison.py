# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The time that calibrated thresholds save."""

from __future__ import annotations

import pytest

from benchmarks.truncation.comparison import CALIBRATED, savings


def _curve(*times: float) -> list[dict[str, float]]:
    """Make a curve with points at missed changes of 0, 0.2 and 0.4."""
    return [{"missed_change": 0.2 * i, "predicted_ms": ms} for i, ms in enumerate(times)]


def test_savings_are_against_the_better_single_threshold_at_the_same_missed_change() -> None:
    curves = {
        "single threshold, maximum": _curve(40, 20, 10),
        "single threshold, RMS": _curve(40, 16, 12),
        "ranked, RMS": _curve(1, 1, 1),
        CALIBRATED: _curve(40, 12, 5),
    }
    saved = savings(curves)
    assert saved[0.2] == pytest.approx(1 - 12 / 16)
    assert saved[0.4] == pytest.approx(1 - 5 / 10)
    assert saved[0.1] == pytest.approx(1 - (40 * 12) ** 0.5 / (40 * 16) ** 0.5)
