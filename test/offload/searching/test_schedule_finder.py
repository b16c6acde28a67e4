# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot asks its server for schedules over any link, and searches itself only where the server does not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.shared_models import mixed_model
from sessions import Both, both, until

from cacheinf_ros.errors import SearchError
from cacheinf_ros.offload.planning import Machines, Scheduler, Workload
from cacheinf_ros.offload.planning.plan_table import ScheduleTable, solve
from cacheinf_ros.offload.planning.stored_plans import kept_table
from cacheinf_ros.offload.protocol import schedule_request
from cacheinf_ros.offload.protocol.link_faults import Faults
from cacheinf_ros.offload.protocol.packets import LARGEST, Kind, Packet, cut
from cacheinf_ros.offload.protocol.schedule_request import ScheduleRequest
from cacheinf_ros.offload.protocol.schedule_service import ScheduleService
from cacheinf_ros.offload.searching import ScheduleFinder, schedule_finder
from cacheinf_ros.offload.searching.search_messages import question_of, table_bytes

MODEL = mixed_model()


class Robot:
    """The parts of a robot's node that the finder needs, with a server in this process."""

    def __init__(self, sessions: Both) -> None:
        engine = sessions.engine
        assert engine.shared is not None and sessions.robot.welcome is not None
        self.work = Workload(engine.program.layout, engine.shared.space)
        self.session = sessions.robot
        server_ms = np.array(sessions.robot.welcome.profile)
        self.machines = Machines(robot_ms=2 * server_ms, server_ms=server_ms)
        self.scheduler = Scheduler(self.work, self.machines)
        self.notes: list[str] = []
        self.table = solve(self.work, self.machines, time_limit_s=0)
        self.finder = self.new_finder()

    def new_finder(self) -> ScheduleFinder:
        return ScheduleFinder("mixed", self.work, self.scheduler, threading.Lock(), self.notes.append, search_s=0.05)

    def poll(self) -> None:
        self.session.poll(self.finder.request)
        self.finder.poll()

    def until_solved(self) -> ScheduleTable:
        until(lambda: self.scheduler.table is not None, self.poll)
        assert self.scheduler.table is not None
        return self.scheduler.table


@contextmanager
def robot_and_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, faults: Faults | None = None
) -> Iterator[tuple[Robot, Both]]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    with both(MODEL, faults) as sessions:
        sessions.connect()
        yield Robot(sessions), sessions


def test_the_servers_table_is_taken_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ready = threading.Event()
    with robot_and_server(tmp_path, monkeypatch) as (robot, sessions):
        asked: list[bytes] = []

        def find(session: str, question: bytes) -> bytes | None:
            asked.append(question)
            return table_bytes(robot.table) if is_ready.is_set() else None

        sessions.find = find
        until(lambda: robot.notes[-1] == "the server searches", robot.poll)
        assert robot.scheduler.table is None
        is_ready.set()
        assert (robot.until_solved().rows == robot.table.rows).all()
        assert list(dict.fromkeys(robot.notes)) == [
            "the server is asked",
            "the server searches",
            "solved by the server",
        ]
        question = question_of(asked[0], robot.machines.server_ms)
        assert np.array_equal(question.machines.robot_ms, robot.machines.robot_ms) and question.search_s == 0.05
        robot.scheduler.table = None
        robot.finder = robot.new_finder()
        assert (robot.until_solved().rows == robot.table.rows).all()
        assert robot.notes[-1] == "solved stored before"


@pytest.mark.parametrize("answer", ["declines", "harms", "says nothing", "says too much"])
def test_where_the_server_does_not_the_robot_searches_and_says_so_once(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reasons = {
        "declines": "I am busy", "harms": "cannot be unpacked", "says nothing": "does not answer",
        "says too much": "more than",
    }  # fmt: skip
    monkeypatch.setattr(schedule_request, "_PATIENCE_S", 0.3 if answer == "says nothing" else 20.0)

    def find(session: str, question: bytes) -> bytes | None:
        if answer == "declines":
            raise SearchError("I am busy")
        return b"harm" if answer == "harms" else bytes(10**6)

    with robot_and_server(tmp_path, monkeypatch) as (robot, sessions):
        sessions.find = find
        if answer == "says nothing":
            monkeypatch.setattr(ScheduleService, "serve", lambda _: None)
        with caplog.at_level(logging.INFO):
            robot.until_solved()
            until(lambda: robot.notes[-1].startswith("solved here"), robot.poll)
        said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        (told,) = [text for text in said if "schedules" in text]
        assert told.startswith("schedules are searched for here, for the server does not: ")
        assert reasons[answer] in told
        assert reasons[answer] in robot.notes[-1]
        kept = kept_table("mixed", robot.work, robot.machines, time_limit_s=0.05).read()
        assert kept is not None and (kept.rows == robot.until_solved().rows).all()


@pytest.mark.parametrize(
    "failure", [RuntimeError("nobody has thought of this"), MemoryError("16 GB"), SearchError("no")]
)
def test_a_search_that_fails_is_noted(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(schedule_finder, "load_or_solve", fail)
    with robot_and_server(tmp_path, monkeypatch) as (robot, _), caplog.at_level(logging.ERROR):
        until(lambda: robot.notes[-1].startswith("failed: "), robot.poll)
        assert str(failure) in robot.notes[-1]
        (told,) = [record for record in caplog.records if "only simple ones are used" in record.getMessage()]
        assert bool(told.exc_info) != isinstance(failure, SearchError), "a bug keeps its traceback"
        assert robot.finder.request is None and robot.scheduler.table is None


@pytest.mark.parametrize("kind", ["lost", "twice", "late", "reordered", "damaged", "foreign", "past"])
def test_whatever_the_link_does_the_table_arrives(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_request, "_AGAIN_S", 0.01)
    monkeypatch.setattr(schedule_request, "_SEARCHING_S", 0.02)
    with robot_and_server(tmp_path, monkeypatch, Faults(0, 0.4, (kind,))) as (robot, sessions):
        times = iter([None, None, table_bytes(robot.table)])
        sessions.find = lambda session, question: next(times, table_bytes(robot.table))
        assert (robot.until_solved().rows == robot.table.rows).all()
        assert robot.notes[-1] == "solved by the server"


MOST = 1_500_000


@settings(max_examples=40)
@given(
    size=st.sampled_from([0, 1, LARGEST, LARGEST + 1, MOST]) | st.integers(0, MOST),
    seed=st.integers(0, 2**32 - 1),
    order=st.randoms(use_true_random=False),
    repeats=st.integers(1, 2),
)
def test_an_answer_in_parts_is_put_together(size: int, seed: int, order: object, repeats: int) -> None:
    content = np.random.default_rng(seed).bytes(size)
    request = ScheduleRequest(b"question", MOST)
    assert request.is_due(1.0)
    packets = [*cut(content, session="robot", epoch=1, kind=Kind.SCHEDULES)]
    order.shuffle(packets)  # type: ignore[attr-defined]
    for packet in packets * repeats:
        request.hear(packet, 2.0)
    assert request.answer == content and not request.refusal and not request.is_due(100.0)


@pytest.mark.parametrize("parts, size", [(1000, 10), (1, 3000), (2, 1500)])
def test_an_answer_that_is_too_long_is_refused(parts: int, size: int) -> None:
    request = ScheduleRequest(b"question", 2000)
    request.is_due(1.0)
    for part in range(min(2, parts)):
        request.hear(Packet(session="r", epoch=1, kind=Kind.SCHEDULES, part=part, parts=parts, data=bytes(size)), 1.0)
    assert request.answer is None and "more than" in request.refusal


def answered(kind: Kind, text: bytes = b"") -> Packet:
    (packet,) = cut(text, session="robot", epoch=1, kind=kind)
    return packet


def test_a_question_is_asked_until_it_is_answered_and_anew_in_each_session() -> None:
    request = ScheduleRequest(b"question", 2000)
    request.hear(answered(Kind.NO_SCHEDULES), 0.0)
    assert not request.refusal, "nobody was asked"
    assert [request.is_due(now_s) for now_s in (100.0, 100.5, 101.1)] == [True, False, True]
    request.hear(answered(Kind.SEARCHING), 101.2)
    assert [request.is_due(now_s) for now_s in (105.0, 111.3, 112.0, 121.4)] == [False, True, False, True]
    request.begin_anew()
    assert not request.is_searched
    assert [request.is_due(now_s) for now_s in (121.5, 122.6, 132.0)] == [True, True, False]
    assert "does not answer" in request.refusal


def test_a_refusal_is_believed() -> None:
    for text, refusal in ((b"no", "no"), (b"\xff" * 1000, "\ufffd" * 500), (b"", "it does not say why")):
        request = ScheduleRequest(b"question", 2000)
        request.is_due(1.0)
        request.hear(answered(Kind.NO_SCHEDULES, text), 1.0)
        request.hear(answered(Kind.SCHEDULES, b"a table after all"), 1.0)
        assert (request.refusal, request.answer) == (refusal, None)
