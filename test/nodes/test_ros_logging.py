# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the package logs reaches the node's log, and what fails frame after frame does not flood it."""

from __future__ import annotations

import logging
import time
from math import nan
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.logging import get_logger

from cacheinf_ros.errors import MOST_CHARACTERS, CacheinfError
from cacheinf_ros.msg import EngineState
from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.matcher import MatcherNode
from cacheinf_ros.nodes.ros_logging import _MOST_CHARACTERS, _MOST_KEPT, _RosHandler
from cacheinf_ros.pipeline import logging_as
from cacheinf_ros.pipeline.guard import guarded


class Lines:
    """A ROS logger that keeps the lines that it is given."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.error = self.warning = self.info = self.lines.append


@pytest.fixture
def lines() -> Any:
    logger, kept = logging.getLogger("cacheinf_ros"), Lines()
    ros: Any = kept
    handler, level = _RosHandler(ros), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield kept.lines
    logger.removeHandler(handler)
    logger.setLevel(level)


def fail(error: Exception) -> None:
    with guarded("a frame"):
        raise error


def test_a_failure_of_every_frame_is_one_line_for_a_while(lines: list[str]) -> None:
    for number in range(5):
        fail(CacheinfError(f"no such encoding {number}"))
    assert lines == ["a frame: no such encoding 0"]


def test_a_failure_that_goes_on_is_said_again(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It was said once, and then no more for as long as the node ran."""
    for now_s in (1e6, 1e6 + 4.0, 1e6 + 6.0):
        monkeypatch.setattr(time, "monotonic", lambda now_s=now_s: now_s)
        fail(CacheinfError("no such encoding"))
    assert lines == ["a frame: no such encoding"] * 2


def test_bugs_of_different_kinds_are_all_there_with_their_tracebacks(lines: list[str]) -> None:
    for error in (ValueError("one"), KeyError("two"), ValueError("three")):
        fail(error)
    assert len(lines) == 2
    assert "Traceback" in lines[0] and "ValueError: one" in lines[0]
    assert "KeyError: 'two'" in lines[1]


def test_a_failure_of_every_frame_does_not_hide_another_one(lines: list[str]) -> None:
    for number in range(5):
        fail(CacheinfError(f"no such encoding {number}"))
        fail(CacheinfError(f"calibration failed: {number}"))
    assert lines == ["a frame: no such encoding 0", "a frame: calibration failed: 0"]


def test_texts_that_are_kept_are_bounded(lines: list[str]) -> None:
    for number in range(3 * _MOST_KEPT):
        fail(CacheinfError("x" * number))
    assert len(lines) == _MOST_KEPT


def test_one_line_says_that_more_is_left_out(lines: list[str]) -> None:
    for number in range(3 * _MOST_KEPT):
        fail(CacheinfError("x" * number))
    assert "more like this one is left out" in lines[-1] and "x" * (_MOST_KEPT - 1) in lines[-1]


def test_many_texts_hide_no_traceback(lines: list[str]) -> None:
    for number in range(300):
        fail(CacheinfError("x" * number))
    fail(ValueError("a bug"))
    assert "Traceback" in lines[-1] and "ValueError: a bug" in lines[-1]


@pytest.mark.parametrize("kind", [CacheinfError, ValueError])
def test_texts_of_megabytes_are_neither_said_nor_kept_whole(lines: list[str], kind: type[Exception]) -> None:
    for number in range(5):
        fail(kind("x" * 5_000_000 + str(number)))
    with guarded("y" * 5_000_000):
        raise kind("one")
    assert 1 <= len(lines) <= 2 and max(map(len, lines)) <= _MOST_CHARACTERS
    (handler,) = (each for each in logging.getLogger("cacheinf_ros").handlers if isinstance(each, _RosHandler))
    kept = [text for throttle in handler._throttles.values() for text in throttle._next_s]
    assert kept and max(map(len, kept)) <= MOST_CHARACTERS


@pytest.mark.parametrize(
    "state", [{"mode": "x" * 5_000_000}, {"mode": "exact", "dense_ms": nan}, {"mode": "exact", "dense_ms": -1.0}]
)
def test_an_unusable_engine_state_is_complained_of_in_few_words(state: dict[str, Any]) -> None:
    said: list[str] = []
    node: Any = SimpleNamespace(health=SimpleNamespace(complained=said.append))
    MatcherNode._store_engine_state(node, EngineState(**state))
    (text,) = said
    assert len(text) < MOST_CHARACTERS and not hasattr(node, "_dense_ms")


def test_each_camera_of_a_process_says_in_its_own_name_what_others_have_just_said_too() -> None:
    """All of them once wrote in the name of the process, and what one had said was not said of another for a while."""
    logger, said = logging.getLogger("cacheinf_ros"), {name: Lines() for name in ("", "front.node", "left.node")}
    loggers: Any = said
    handler = _RosHandler(loggers[""], loggers.__getitem__)
    logger.addHandler(handler)
    try:
        for name in ("front.node", "left.node", "front.node"):
            with logging_as(name):
                fail(CacheinfError("no such encoding"))
        fail(CacheinfError("no such encoding"))
    finally:
        logger.removeHandler(handler)
    assert [each.lines for each in said.values()] == [["a frame: no such encoding"]] * 3


def test_warnings_of_a_camera_are_repeated_by_steady_time(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """They followed the system's clock: after it was set back by a day nothing was said for that day."""
    logger = get_logger("camera")
    camera: Any = SimpleNamespace(
        _health=SimpleNamespace(loses_frames=True), _topic="/front", _node=SimpleNamespace(get_logger=lambda: logger)
    )
    for now_s in (1e6, 1e6 + 59.0, 1e6 + 61.0):
        monkeypatch.setattr(time, "monotonic", lambda now_s=now_s: now_s)
        Camera._tell_if_many(camera)
    assert [line.split(":")[0] for line in lines] == ["frames of /front are lost on their way"] * 2


def test_what_is_not_throttled_is_all_there(lines: list[str]) -> None:
    for _ in range(3):
        logging.getLogger("cacheinf_ros.somewhere").info("done")
    assert lines == ["done"] * 3
