# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What /diagnostics says."""

from __future__ import annotations

from cacheinf_ros.pipeline.health import Health, Level, Status


def judged(health: Health, *, busy_s: float = 0.0) -> Status:
    return health.status(latency_budget_ms=100.0, stuck_after_s=10.0, busy_s=busy_s, dropped=3)


def test_before_the_first_frame_nothing_is_known() -> None:
    status = judged(Health())
    assert status.level is Level.OK
    assert status.message.startswith("n/a")
    assert status.values["latency_ms"] == "n/a"
    assert status.values["dropped"] == "3"


def test_a_node_above_its_latency_budget_warns() -> None:
    health = Health()
    health.result(50.0, 0.5)
    assert judged(health).level is Level.OK
    health.result(200.0, 0.5)
    health.result(200.0, 0.5)
    assert judged(health).level is Level.WARN


def test_a_stuck_node_is_an_error() -> None:
    status = judged(Health(), busy_s=11.0)
    assert status.level is Level.ERROR
    assert "stuck" in status.message


def test_a_frame_that_failed_is_an_error_until_one_succeeds() -> None:
    health = Health()
    health.result(1.0, 0.0, "no such encoding")
    assert (judged(health).level, judged(health).message) == (Level.ERROR, "no such encoding")
    health.result(1.0, 0.0)
    assert judged(health).level is Level.OK
    assert judged(health).values["errors"] == "1"


def test_more_than_one_lost_frame_in_a_hundred_warns() -> None:
    health = Health()
    health.result(50.0, 0.5)
    health.passed(missing=1)
    health.passed(missing=0)
    assert judged(health).level is Level.OK  # a third, of three: that says nothing yet
    for _ in range(97):
        health.passed(missing=0)
    assert judged(health).level is Level.OK  # one of a hundred
    health.lost(3)
    health.passed(missing=0)
    status = judged(health)
    assert status.level is Level.WARN
    assert (status.values["lost"], status.values["missing"], status.values["lost_share"]) == ("3", "1", "0.029")


def test_silence_warns_until_something_arrives() -> None:
    health = Health()
    health.silent("nothing arrives")
    assert (judged(health).level, judged(health).message) == (Level.WARN, "nothing arrives")
    health.silent("")
    assert judged(health).level is Level.OK


def test_a_failure_without_a_result_is_reported_once() -> None:
    health = Health()
    health.failed("a bad cache map")
    health.result(1.0, 0.0)
    assert [judged(health).level for _ in range(2)] == [Level.ERROR, Level.OK]
    assert judged(health).values["errors"] == "1"
