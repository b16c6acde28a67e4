# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Work beside frames rests where a quota of processor time is shared with them."""

from __future__ import annotations

import logging
import math
import threading

import pytest

from cacheinf_ros.pipeline.background_pace import BackgroundPace


class Waits(threading.Event):
    """Notes how long somebody would wait, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return False


def test_nine_tenths_of_the_time_are_left_to_frames(caplog: pytest.LogCaptureFixture) -> None:
    """Pieces of one and of two seconds, the second begun when the rest after the first had ended."""
    times = iter([0.0, 1.0, 10.0, 12.0, 30.0])
    waits, pace = Waits(), BackgroundPace(2, "work", quota=lambda: 0.5, clock=lambda: next(times))
    assert not pace.is_slow
    with caplog.at_level(logging.INFO):
        pace.rest(waits)
        pace.rest(waits)
    assert waits.waited == pytest.approx([9.0, 18.0])
    assert pace.is_slow
    assert len(caplog.records) == 1  # said once


@pytest.mark.parametrize("quota", [3.0, 3.5, math.inf])
def test_a_processor_beside_the_frames_is_enough(quota: float) -> None:
    waits, pace = Waits(), BackgroundPace(2, "work", quota=lambda: quota)
    pace.rest(waits)
    assert waits.waited == []
    assert not pace.is_slow


def test_a_quota_may_come_later() -> None:
    quotas, waits = iter([math.inf, 1.0]), Waits()
    pace = BackgroundPace(1, "work", quota=lambda: next(quotas))
    pace.rest(waits)
    pace.rest(waits)
    assert len(waits.waited) == 1
