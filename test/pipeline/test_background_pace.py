# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Work beside frames rests where a quota of processor time is shared with them."""

from __future__ import annotations

import logging
import math
import threading

import pytest

from cacheinf_ros.pipeline.background_pace import BackgroundPace


class Clock(threading.Event):
    """A clock that goes on while somebody waits for it, with a frame every so many seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.pace: BackgroundPace | None = None
        self.last_frame_s = math.inf

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        if self.pace is not None and self.now <= self.last_frame_s:
            self.pace.frame()
        return self.is_set()


def paced(clock: Clock, quota: float, threads: int = 2) -> BackgroundPace:
    """Return a pace of work that begins now, as does a stream of frames."""
    clock.pace = BackgroundPace(threads, "work", quota=lambda: quota, clock=clock)
    clock.pace.frame()
    return clock.pace


def test_nine_tenths_of_the_time_are_left_to_frames(caplog: pytest.LogCaptureFixture) -> None:
    """Pieces of half a second and of a whole one."""
    clock = Clock()
    pace = paced(clock, quota=0.5)
    for piece_s, ends_s in ((0.5, 5.0), (0.9, 14.0)):
        clock.now += piece_s
        with caplog.at_level(logging.INFO):
            assert pace.must_rest()
        pace.rest(clock)
        assert clock.now == pytest.approx(ends_s)
    assert len(caplog.records) == 1  # said once


@pytest.mark.parametrize("quota", [3.0, 3.5, math.inf])
def test_a_processor_beside_the_frames_is_enough(quota: float, caplog: pytest.LogCaptureFixture) -> None:
    pace = paced(Clock(), quota)
    with caplog.at_level(logging.INFO):
        assert not pace.must_rest()
    assert not caplog.records


def test_without_frames_nothing_rests() -> None:
    clock = Clock()
    pace = paced(clock, quota=0.5)
    clock.now += 2.0  # the last frame is two seconds ago
    assert not pace.must_rest()


def test_a_rest_ends_with_the_frames() -> None:
    clock = Clock()
    pace = paced(clock, quota=0.5)
    clock.last_frame_s = 3.0
    clock.now += 0.9
    assert pace.must_rest()
    pace.rest(clock)
    assert 3.0 < clock.now < 4.5  # instead of 9 s


def test_a_rest_ends_when_it_is_stopped() -> None:
    clock = Clock()
    pace = paced(clock, quota=0.5)
    clock.now += 0.9
    clock.set()
    pace.rest(clock)
    assert clock.now < 1.5
