# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server searches for its robots one after the other, and declines what it cannot or need not do."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from networks.shared_models import mixed_model
from sessions import PATIENCE_S, until
from workloads import MIXED, surroundings

from cacheinf_ros.engine import PartitionSpace
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.errors import MessageError, SearchError
from cacheinf_ros.offload.planning.plan_table import Machines, solve
from cacheinf_ros.offload.searching import ScheduleSearches, schedule_searches, server_side
from cacheinf_ros.offload.searching.search_messages import question_bytes, table_bytes, table_of
from cacheinf_ros.offload.searching.search_problem import problem_of

AROUND = surroundings(MIXED, seed=1, speedup=4.0)
LAYOUT = lay_out(mixed_model().graph)
SIDE = server_side("network", LAYOUT, PartitionSpace(LAYOUT), AROUND.server_ms.tolist())


class InThread:
    """A replacement of :class:`.search_process.SearchProcess` that searches in the waiting thread when allowed to."""

    started: ClassVar[list[Any]] = []
    may_go_on = threading.Event()
    failure: Exception | None = None

    def __init__(self, problem: bytes, time_limit_s: float) -> None:
        self.problem, self.time_limit_s, self.was_killed = problem_of(problem), time_limit_s, False
        self.pid = 0
        self.started.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def kill(self) -> None:
        self.was_killed = True
        self.may_go_on.set()

    def answer(self) -> bytes:
        assert self.may_go_on.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        if self.was_killed:
            raise SearchError("exit code -9")
        return table_bytes(self.problem.solve())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[InThread]:
    """Return a list that grows with each search."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(schedule_searches, "SearchProcess", InThread)
    monkeypatch.setattr(InThread, "started", [])
    monkeypatch.setattr(InThread, "may_go_on", threading.Event())
    InThread.may_go_on.set()
    return InThread.started


@pytest.fixture
def searching(started: list[InThread]) -> Iterator[Callable[..., ScheduleSearches]]:
    made: list[ScheduleSearches] = []

    def make(longest_s: float = 10.0) -> ScheduleSearches:
        made.append(ScheduleSearches(longest_s))
        return made[-1]

    yield make
    for each in made:
        each.close()


def question(around: Machines = AROUND, search_s: float = 0.0) -> bytes:
    return question_bytes(MIXED, around, search_s)


def slower(factor: float) -> Machines:
    return dataclasses.replace(AROUND, robot_ms=factor * AROUND.robot_ms)


def answer(searches: ScheduleSearches, asked: bytes, session: str = "robot") -> bytes:
    """Ask as a session does until there is a reply, and return it."""
    find, found = searches.about(SIDE), []
    until(lambda: (content := find(session, asked)) is not None and not found.append(content))
    return found[0]


def test_it_finds_what_the_robot_would(searching: Callable[..., ScheduleSearches], started: list[InThread]) -> None:
    searches = searching()
    content = answer(searches, question())
    assert (table_of(content, MIXED).rows == solve(MIXED, AROUND, time_limit_s=0.0).rows).all()
    assert answer(searches, question(), "another robot") == content
    assert answer(searching(), question()) == content, "and the next server reads it from the disk"
    assert len(started) == 1
    answer(searches, question(slower(2.0)))
    assert len(started) == 2


@pytest.mark.parametrize("asked_s, longest_s, takes_s", [(0.3, 10.0, 0.3), (1000.0, 0.2, 0.2)])
def test_no_search_takes_longer_than_robot_and_server_want(
    asked_s: float,
    longest_s: float,
    takes_s: float,
    searching: Callable[..., ScheduleSearches],
    started: list[InThread],
) -> None:
    answer(searching(longest_s), question(search_s=asked_s))
    assert [(each.time_limit_s, each.problem.time_limit_s) for each in started] == [(takes_s, takes_s)]


def test_robots_wait_for_their_turn(searching: Callable[..., ScheduleSearches], started: list[InThread]) -> None:
    """Not too many robots may wait, and of each robot only its last request counts."""
    InThread.may_go_on.clear()
    searches = searching()
    find = searches.about(SIDE)
    assert find("running", question()) is None
    until(lambda: len(started) == 1)
    for number in range(schedule_searches._MOST_WAITING):
        for version in (1, 2):
            assert find(f"robot{number}", question(slower(10.0 * number + version))) is None
    with pytest.raises(SearchError, match="searches are waiting"):
        find("one more", question(slower(0.5)))
    assert find("one more", question(slower(2.0))) is None, "another robot asks that already"
    InThread.may_go_on.set()
    answer(searches, question(slower(2.0)), "one more")
    until(lambda: len(started) == 1 + schedule_searches._MOST_WAITING)
    assert not searches._waiting


def test_for_who_asks_no_more_nothing_is_searched(
    searching: Callable[..., ScheduleSearches], started: list[InThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_searches, "_GONE_S", -1.0)
    searches = searching()
    assert searches.about(SIDE)("gone", question()) is None
    until(lambda: not searches._searches)
    assert not started


@pytest.mark.parametrize("failure", [SearchError("no memory"), ValueError("a bug")])
def test_a_search_that_fails_is_told_and_may_be_asked_for_again(
    failure: Exception, searching: Callable[..., ScheduleSearches], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InThread, "failure", failure)
    searches = searching()
    InThread.may_go_on.clear()
    assert [searches.about(SIDE)(session, question()) for session in ("first", "second")] == [None, None]
    InThread.may_go_on.set()
    for session in ("first", "second"):
        with pytest.raises(SearchError, match="no memory" if isinstance(failure, SearchError) else "internal error"):
            answer(searches, question(), session)
    monkeypatch.setattr(InThread, "failure", None)
    answer(searches, question())


def test_a_robot_that_went_untold_leaves_no_refusal_behind(
    searching: Callable[..., ScheduleSearches], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InThread, "failure", SearchError("no memory"))
    searches = searching()
    find = searches.about(SIDE)
    assert find("gone", question()) is None
    until(lambda: all(search.refusal for search in searches._searches.values()))
    monkeypatch.setattr(InThread, "failure", None)
    with pytest.raises(SearchError, match="no memory"):
        find("robot", question())
    monkeypatch.setattr(schedule_searches, "_GONE_S", -1.0)  # as if that had been long ago
    assert find("robot", question()) is None, "it is searched for anew"


def test_who_has_had_its_answer_is_forgotten(searching: Callable[..., ScheduleSearches]) -> None:
    searches = searching()
    content = answer(searches, question(), "waiting")
    assert all(answer(searches, question(), f"robot{number}") == content for number in range(5))
    assert [len(search.asking) for search in searches._searches.values()] == [0]


def test_a_bug_outside_of_a_search_is_told_and_the_next_question_is_answered(
    searching: Callable[..., ScheduleSearches], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(schedule_searches, "_PAUSE_S", 0.01, raising=False)
    searches = searching()
    with monkeypatch.context() as failing, caplog.at_level(logging.ERROR):
        failing.setattr(ScheduleSearches, "_result", lambda *_: {}["nobody has thought of this"])
        with pytest.raises(SearchError, match="internal error"):
            answer(searches, question())
    assert any("nobody has thought of this" in (record.exc_text or "") for record in caplog.records)
    answer(searches, question())


def test_who_asks_about_another_server_is_told_so(searching: Callable[..., ScheduleSearches]) -> None:
    other = dataclasses.replace(AROUND, server_ms=2 * AROUND.server_ms)
    with pytest.raises(SearchError, match="another network, or another server's times"):
        answer(searching(), question(other))
    with pytest.raises(MessageError, match="bytes, not the"):
        answer(searching(), b"")


def test_a_server_may_search_for_nobody(searching: Callable[..., ScheduleSearches], started: list[InThread]) -> None:
    with pytest.raises(SearchError, match="search_s is 0"):
        answer(searching(0.0), question())
    assert not started


def test_the_search_at_hand_ends_with_the_server(
    searching: Callable[..., ScheduleSearches], started: list[InThread], caplog: pytest.LogCaptureFixture
) -> None:
    InThread.may_go_on.clear()
    searches = searching()
    find = searches.about(SIDE)
    for number in range(3):
        assert find(f"robot{number}", question(slower(1.0 + number))) is None
    until(lambda: len(started) == 1)
    with caplog.at_level(logging.WARNING):
        searches.close()
    assert started[0].was_killed and len(started) == 1 and not caplog.records
    with pytest.raises(SearchError, match="the server ends"):
        find("robot0", question())


def test_only_so_many_tables_are_kept(
    searching: Callable[..., ScheduleSearches], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_searches, "_MOST_KEPT", 2)
    monkeypatch.setattr(schedule_searches, "_MOST_KNOWN", 2)
    searches = searching()
    for factor in np.linspace(1, 2, 5):
        answer(searches, question(slower(float(factor))))
    until(lambda: len(list(tmp_path.rglob("for_robot-*.json"))) == 2)
    assert len(searches._searches) <= 2
