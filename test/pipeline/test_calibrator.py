# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Calibrating in the background: on frames that show something, which are not kept longer than needed."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks.shared_models import mixed_model
from numpy.typing import NDArray

from cacheinf_ros.engine import Calibration, EngineConfig, Mode
from cacheinf_ros.engine.caching import EVERYTHING
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.errors import EngineError
from cacheinf_ros.low_priority import NICE
from cacheinf_ros.pipeline import calibrator
from cacheinf_ros.pipeline.background_pace import BackgroundPace
from cacheinf_ros.pipeline.calibrator import FRAMES, BackgroundCalibrator
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 30.0
FIRST_PAUSE = 256
MANY = 1_000_000
FOUND = Calibration(base={}, curve=(), output_scale=OutputScale(deviations=(1.0,)))


class Calibrating:
    """Fails with each of these errors in turn, then finds something; knows which frames it was given."""

    def __init__(self, *errors: Exception) -> None:
        self.first: list[int] = []  # value of the first frame of each call
        self.frames: list[weakref.ref[NDArray[np.uint8]]] = []
        self._errors = list(errors)

    def __call__(
        self, _model: Any, frames: Sequence[NDArray[np.uint8]], maps: Sequence[Any], *_: Any, **__: Any
    ) -> Any:
        assert len(frames) == len(maps) == FRAMES
        self.first.append(int(frames[0].reshape(-1).view(np.uint32)[0]))
        self.frames += map(weakref.ref, frames)
        if self._errors:
            raise self._errors.pop(0)
        return FOUND


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a calibrator which has no stored calibration."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def make(calibrating: Calibrating) -> BackgroundCalibrator:
        monkeypatch.setattr(calibrator, "calibrate", calibrating)
        return BackgroundCalibrator(mixed_model(), EngineConfig(mode=Mode.BOUNDED), EVERYTHING)

    return make


def numbered(number: int) -> NDArray[np.uint8]:
    """Return a frame that knows its number."""
    return np.full((4, 3), number, np.uint32).view(np.uint8).reshape(4, 4, 3)


def test_where_frames_show_nothing_later_ones_are_taken_after_growing_pauses(start: Any) -> None:
    calibrating = Calibrating(EngineError("show something"), EngineError("show something"))
    working, fed, found = start(calibrating), 0, None
    for attempt in range(3):
        while len(calibrating.first) == attempt:
            assert fed < MANY
            found = working.feed(numbered(fed), None) or found
            fed += 1
        state = "done" if attempt == 2 else f"failed, tried again {FIRST_PAUSE << attempt} frames later: show something"
        assert wait_until(lambda state=state: working.state == state, DEADLINE_S)
    first = calibrating.first
    assert first[0] == 0
    assert first[1] >= FRAMES + FIRST_PAUSE and first[2] >= first[1] + FRAMES + 2 * FIRST_PAUSE
    assert (found or working.feed(numbered(fed), None)) is FOUND
    assert working.feed(numbered(fed), None) is None
    working.stop()


@pytest.mark.parametrize("error", [None, EngineError("show something"), RuntimeError("a bug")])
def test_frames_are_freed_once_they_are_not_needed(start: Any, error: Exception | None) -> None:
    """Eight frames of a large camera, with their maps, once stayed in memory for as long as the node ran."""
    calibrating = Calibrating(*([error] if error else []))
    working = start(calibrating)
    for _ in range(FRAMES):
        working.feed(numbered(0), None)
    assert wait_until(lambda: working.state.startswith("failed" if error else "done"), DEADLINE_S)
    assert wait_until(lambda: not any(frame() is not None for frame in calibrating.frames), DEADLINE_S)
    assert len(calibrating.frames) == FRAMES
    working.stop()


def test_kernels_that_are_tried_have_the_low_priority_of_their_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of kernels inherit their priority when they start, which was before it was lowered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = set(os.listdir("/proc/self/task"))
    lowered: list[int] = []
    finish = calibrator.calibrate

    def calibrating(*given: Any, between: Any, **named: Any) -> Any:
        def counting() -> None:
            between()
            others = set(os.listdir("/proc/self/task")) - before
            lowered.append(sum(_priority(int(task)) >= NICE for task in others))

        return finish(*given, between=counting, **named)

    monkeypatch.setattr(calibrator, "calibrate", calibrating)
    working = BackgroundCalibrator(mixed_model(), EngineConfig(mode=Mode.BOUNDED, threads=3), EVERYTHING)
    rng = np.random.default_rng(0)
    for _ in range(FRAMES):
        working.feed(rng.integers(0, 256, (224, 224, 3), np.uint8), None)
    assert wait_until(lambda: working.state.startswith(("done", "failed")), DEADLINE_S)
    if os.getpriority(os.PRIO_PROCESS, 0) < NICE:
        assert lowered[0] == 0  # while operators are measured
    assert max(lowered) >= 3  # the thread itself, and two of kernels
    working.stop()


def _priority(task: int) -> int:
    try:
        return os.getpriority(os.PRIO_PROCESS, task)
    except ProcessLookupError:  # it has ended
        return 0


@pytest.mark.parametrize("quota", [0.5, 8.0])
def test_it_gives_way_to_frames(start: Any, quota: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a low priority, and rests between frames where it draws on one quota with them."""
    monkeypatch.setattr(calibrator, "BackgroundPace", partial(BackgroundPace, quota=lambda: quota))
    seen: list[tuple[int, str]] = []

    def calibrating(*_: Any, between: Any, measured: Any, **__: Any) -> Any:
        measured()
        between()
        seen.append((os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), working.state))
        return FOUND

    working = start(calibrating)
    for _ in range(FRAMES):
        working.feed(numbered(0), None)
    assert wait_until(lambda: working.state == "done", DEADLINE_S)
    state = "running slowly: little processor time is allowed" if quota < 1 else "running"
    assert seen == [(max(NICE, os.getpriority(os.PRIO_PROCESS, 0)), state)]
    working.stop()


def test_a_network_that_cannot_be_calibrated_is_said_once_with_the_reason_and_the_next_try(
    start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Outputs of whole numbers never can be: each of the ever rarer tries was an error in the log."""
    why = "its outputs are whole numbers"
    calibrating = Calibrating(*(EngineError(why) for _ in range(3)))
    working, fed, states = start(calibrating), 0, []
    with caplog.at_level(logging.WARNING):
        while len(calibrating.first) < 3:
            assert fed < MANY
            working.feed(numbered(fed), None)
            states.append(working.state)
            fed += 1
        assert wait_until(
            lambda: working.state == f"failed, tried again {4 * FIRST_PAUSE} frames later: {why}", DEADLINE_S
        )
    (said,) = [record.getMessage() for record in caplog.records]
    assert why in said and f"tried again {FIRST_PAUSE} frames later" in said and "said once" in said
    first = next(at for at, state in enumerate(states) if why in state)
    assert all(why in state for state in states[first:]), "also while it is tried again"
    assert f"failed, tried again 100 frames later: {why}" in states, "how long it still takes is up to date"
    working.stop()


def test_another_objection_is_said_too(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    calibrating = Calibrating(EngineError("show something"), EngineError("show more"))
    working, fed = start(calibrating), 0
    with caplog.at_level(logging.WARNING):
        while len(calibrating.first) < 2:
            working.feed(numbered(fed), None)
            fed += 1
        assert wait_until(lambda: "show more" in working.state, DEADLINE_S)
    said = [record.getMessage() for record in caplog.records]  # other tests' threads may still say something
    first, second = [each for each in said if "calibration" in each]
    assert "show something" in first and "show more" in second
    working.stop()


def test_a_bug_is_not_tried_again(start: Any) -> None:
    calibrating = Calibrating(RuntimeError("a bug"))
    working = start(calibrating)
    for _ in range(FRAMES):
        working.feed(numbered(0), None)
    assert wait_until(lambda: working.state.startswith("failed: "), DEADLINE_S)
    for _ in range(3 * FIRST_PAUSE):
        working.feed(numbered(0), None)
    assert len(calibrating.first) == 1
    working.stop()
