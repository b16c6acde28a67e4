# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the package logs reaches the node's log, and what fails frame after frame does not flood it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.nodes.ros_logging import _MOST_KEPT, _RosHandler
from cacheinf_ros.pipeline.guard import guarded


class Lines:
    """A ROS logger that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.error = self.info = self.lines.append


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


def test_what_is_not_throttled_is_all_there(lines: list[str]) -> None:
    for _ in range(3):
        logging.getLogger("cacheinf_ros.somewhere").info("done")
    assert lines == ["done"] * 3
