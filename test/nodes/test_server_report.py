# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a peer says reaches diagnostics at once, and the log only so often: its texts may be anybody's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.nodes import server_connection
from cacheinf_ros.nodes.server_connection import ServerReport
from cacheinf_ros.pipeline.health import Health, WorkState

A_MINUTE = 20  # lines


class Reported:
    """A report of a session, what is logged of it, and its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.lines = 1000.0, []  # type: float, list[str]
        monkeypatch.setattr(server_connection, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        logger = SimpleNamespace(warning=self.lines.append, info=self.lines.append)
        node: Any = SimpleNamespace(get_logger=lambda: logger)
        self._health = Health()
        self._report = ServerReport(node, self._health, started="answers", until="it answers", prefix="")

    def say(self, complaint: str, *, after_s: float = 0.1) -> None:
        self.now_s += after_s
        self._report.say(complaint)

    @property
    def in_diagnostics(self) -> str:
        return self._health.status(WorkState(), latency_budget_ms=1.0, stuck_after_s=1.0, now_s=0.0).values["server"]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Reported:
    return Reported(monkeypatch)


def test_ever_new_complaints_take_twenty_lines_a_minute(reported: Reported) -> None:
    for number in range(100):
        reported.say(f"complaint {number}")
    assert len(reported.lines) == A_MINUTE and "complaint 19;" in reported.lines[-1]
    assert reported.in_diagnostics == "complaint 99"
    reported.say("a minute after the first lines", after_s=60.0)
    assert len(reported.lines) == A_MINUTE + 1 and "a minute after" in reported.lines[-1]


def test_a_server_that_comes_and_goes_takes_no_more(reported: Reported) -> None:
    for _ in range(100):
        reported.say("")
        reported.say("it is lost")
    assert len(reported.lines) == A_MINUTE
    assert reported.in_diagnostics == "it is lost"


def test_what_was_left_out_is_logged_later_where_it_still_holds(reported: Reported) -> None:
    for number in range(A_MINUTE):
        reported.say(f"complaint {number}")
    reported.say("")
    assert len(reported.lines) == A_MINUTE
    reported.say("", after_s=61.0)
    assert reported.lines[-1] == "server: answers"
