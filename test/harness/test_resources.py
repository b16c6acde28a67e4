# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The resources that processes hold after their warm-up, and how these grow."""

from __future__ import annotations

import numpy as np
import pytest

from cacheinf_ros.harness.resources import growth_of, slope_of


def test_growth_is_that_after_the_warm_up() -> None:
    seconds = np.arange(0.0, 3600.0, 10.0)
    memory = 1e8 + np.where(seconds < 600, 1e5 * seconds, 6e7 + 2e6 * (seconds - 600) / 3600)
    growth = growth_of("node", np.column_stack([seconds, memory, np.full(360, 7), 20 + (seconds > 3000)]))
    assert growth.memory_slope is not None and abs(growth.memory_slope.per_hour - 2.0e6) < 1e4
    assert growth.threads == (7, 7)
    assert growth.descriptors == (20, 21)


def test_a_slope_by_hand() -> None:
    """The slope and its error agree with numbers worked out by hand.

    After the warm-up the samples at 1, 2 and 3 hours are 0, 3 and 0: the line is level, with the residuals -1, 2 and
    -1. Their squares add up to 6; over n - 2 = 1 and the times' squared deviations, 2, the error is sqrt(6 / 2).
    """
    slope = slope_of([0.0, 3600.0, 7200.0, 10800.0], [9.0, 0.0, 3.0, 0.0])
    assert slope is not None
    assert slope.samples == 3
    assert slope.per_hour == pytest.approx(0.0)
    assert slope.error_per_hour == pytest.approx(3**0.5)


def test_a_slope_needs_three_samples_after_the_warm_up() -> None:
    assert slope_of([], []) is None
    assert slope_of([0.0, 5.0, 10.0], [1.0, 1.0, 1.0]) is None
