# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The level, message and values that a node reports on /diagnostics."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheinf_ros.pipeline.health import Health, Level, StampGaps, Status, WorkState

MS = 1_000_000


def judged(
    health: Health, now_s: float = 0.0, *, busy_s: float = 0.0, is_owed: bool = False, has_died: bool = False
) -> Status:
    work = WorkState(busy_s=busy_s, dropped=3, is_owed=is_owed, has_died=has_died)
    return health.status(work, latency_budget_ms=100.0, stuck_after_s=10.0, now_s=now_s)


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


def test_frames_that_wait_and_are_not_answered_are_an_error() -> None:
    health = Health()
    assert judged(health, 0.0).level is Level.OK
    assert judged(health, 100.0, is_owed=True).level is Level.OK  # 100 s have passed since the last report
    assert judged(health, 105.0, is_owed=True).level is Level.OK
    health.result(1.0, 0.0)
    assert judged(health, 109.0, is_owed=True).level is Level.OK
    assert judged(health, 118.0, is_owed=True).level is Level.OK
    status = judged(health, 120.0, is_owed=True)
    assert status.level is Level.ERROR and "no result" in status.message
    health.result(1.0, 0.0)
    assert judged(health, 121.0, is_owed=True).level is Level.OK
    assert judged(health, 200.0).level is Level.OK  # no frame waits


def test_a_thread_that_has_ended_is_an_error_for_good() -> None:
    for at_s in (0.0, 100.0):
        status = judged(Health(), at_s, has_died=True)
        assert status.level is Level.ERROR and "has ended" in status.message


def test_a_frame_that_failed_is_an_error_until_one_succeeds() -> None:
    health = Health()
    health.result(1.0, 0.0, "no such encoding")
    assert (judged(health).level, judged(health).message) == (Level.ERROR, "no such encoding")
    health.result(1.0, 0.0)
    assert judged(health).level is Level.OK
    assert judged(health).values["errors"] == "1"


def test_an_error_stands_until_its_own_source_succeeds() -> None:
    """An error stands however often other sources succeed meanwhile: each model is asked at its own rate."""
    health = Health()
    health.result(1.0, 0.0, "no weights", "rare")
    for _ in range(200):
        health.result(1.0, 0.0, source="frequent")
    assert (judged(health).level, judged(health).message) == (Level.ERROR, "rare: no weights")
    health.result(1.0, 0.0, "no room", "frequent")
    assert judged(health).message == "frequent: no room (and 1 more fail)"
    health.result(1.0, 0.0, source="frequent")
    assert judged(health).message == "rare: no weights"
    health.result(1.0, 0.0, source="rare")
    assert judged(health).level is Level.OK


def test_errors_of_sources_that_are_gone_do_not_stand() -> None:
    health = Health()
    health.result(1.0, 0.0, "no such model", "session 0")
    health.forget("session 0")
    assert judged(health).level is Level.OK
    for i in range(1000):  # sessions of which nobody reports that they have gone
        health.result(1.0, 0.0, "no such model", f"session {i}")
    assert judged(health).message == "session 999: no such model (and 63 more fail)"
    health.restart()
    assert judged(health).level is Level.OK


def test_a_counter_that_raises_is_said_once_and_the_others_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> int:
        raise RuntimeError("destroyed")

    health = Health()
    health.counted("subscribers", broken)
    health.counted("publishers", lambda: 3)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            values = judged(health).values
            assert (values["subscribers"], values["publishers"]) == ("n/a", "3")
    assert [record.getMessage() for record in caplog.records] == ["subscribers cannot be counted (said once)"]
    health.counted("subscribers", lambda: 1)
    assert judged(health).values["subscribers"] == "1"


def test_a_node_that_a_failure_brought_to_rest_is_not_well() -> None:
    resting = WorkState(at_rest="inactive", failure="no such topic")
    status = Health().status(resting, latency_budget_ms=100.0, stuck_after_s=10.0, now_s=0.0)
    assert (status.level, status.message) == (Level.ERROR, "no such topic (inactive)")


def test_a_node_at_rest_is_well_and_begins_anew() -> None:
    health = Health()
    health.result(500.0, 0.5, "no such thing")
    health.silent("nothing arrives")
    resting = WorkState(busy_s=99.0, at_rest="inactive")
    status = health.status(resting, latency_budget_ms=100.0, stuck_after_s=10.0, now_s=0.0)
    assert (status.level, status.message) == (Level.OK, "inactive")
    assert status.values["results"] == "1"
    health.restart()
    status = judged(health)
    assert status.level is Level.OK and status.message.startswith("n/a")
    assert status.values["results"] == "1"


def test_more_than_one_lost_frame_in_a_hundred_warns() -> None:
    health = Health()
    health.result(50.0, 0.5)
    health.passed(missing=1)
    health.passed(missing=0)
    assert judged(health).level is Level.OK  # a third is lost, but three frames say nothing yet
    for _ in range(97):
        health.passed(missing=0)
    assert judged(health).level is Level.OK  # one of a hundred is lost
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


def missing(stamps_ms: Iterable[float]) -> int:
    gaps = StampGaps()
    return sum(gaps.add(round(stamp * MS)) for stamp in stamps_ms)


@example({2, 3, 4, 5, 6, 7, 8, 16, 17}, 3, 10, 0.05, 76)
@given(
    st.sets(st.integers(2, 30)),
    st.integers(1, 3),
    st.sampled_from([10, 33, 100]),
    st.floats(0.0, 0.05),
    st.integers(0, 99),
)
def test_what_is_missing_of_a_steady_camera_is_counted(
    places: set[int], length: int, period_ms: int, jitter: float, seed: int
) -> None:
    """Gaps are of a few frames, with at least nine frames between two of them."""
    lost = {10 * place + i for place in places for i in range(length)}
    noise = random.Random(seed)
    kept = [i for i in range(1, 330) if i not in lost]
    assert missing((i + noise.uniform(-jitter, jitter)) * period_ms for i in kept) == len(lost)


@pytest.mark.parametrize("slower", [2, 3, 4])
def test_a_camera_that_slows_down_loses_nothing(slower: int) -> None:
    """Automatic exposure slows a camera from 30 Hz to 15, 10 or 7.5 Hz, and speeds it up again."""
    periods = [33] * 50 + [33 * slower] * 50 + [33] * 50
    assert missing(sum(periods[:i]) for i in range(1, len(periods))) == 0


def test_a_pause_and_time_that_goes_back_are_no_loss() -> None:
    assert missing([*range(0, 2000, 33), *range(5000, 7000, 33), *range(60_000, 62_000, 33), *range(0, 2000, 33)]) == 0


def test_two_periods_in_turn_are_no_loss() -> None:
    stamps = [0.0]
    for i in range(400):
        stamps.append(stamps[-1] + (33 if i % 2 else 66))
    assert missing(stamps) == 0


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_of_a_camera_without_a_rate(seed: int) -> None:
    draw, stamps = random.Random(seed), [0.0]
    for _ in range(300):
        stamps.append(stamps[-1] + draw.uniform(20.0, 500.0))
    assert missing(stamps) < 3
