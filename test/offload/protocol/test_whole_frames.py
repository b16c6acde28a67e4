# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whole frames in sessions that are answered, late, refused or lost, with another server or none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sessions import PATIENCE_S, ServerBeside, until

from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload import (
    Identity,
    OffloadConfig,
    WholeFrameSession,
    WholeFrameWorker,
    Work,
)
from cacheinf_ros.offload.protocol.greeting import written
from cacheinf_ros.offload.protocol.link_faults import Faults
from cacheinf_ros.offload.protocol.newest import NewestContent
from cacheinf_ros.offload.protocol.packets import LARGEST, Kind, Packet, cut

OTHER = Identity(model="other", network="5678")
CONFIG = OffloadConfig(server_deadline_ms=300.0, probe_s=0.02, probe_max_s=0.05)
IDENTITY = Identity(model="model", network="1234")


def mirrored(content: bytes) -> bytes:
    return content[::-1]


class Both(ServerBeside):
    """A robot's session and a server's in one process."""

    def __init__(self, compute: Callable[[bytes], bytes], faults: Faults) -> None:
        self._compute, self.faults = compute, faults
        self.complaints: list[str] = []
        self.made: list[str] = []  # networks
        self.robot = WholeFrameSession("robot", IDENTITY, CONFIG, self._to_server)
        self.start_server()

    def connect(self) -> None:
        until(lambda: self.robot.welcome is not None, self.robot.poll)

    def ask(self, content: bytes, more_ms: float = 0.0) -> bytes | None:
        ticket = self.robot.request(more_ms)
        if ticket is None:
            return None
        self.robot.send(ticket, content)
        return self.robot.result(ticket) if ticket.awaited else None

    def _worker(self, asked: Identity, work: Work) -> WholeFrameWorker:
        assert work is Work.FRAMES
        self.made.append(asked.network)
        if asked.network == "5678":
            return WholeFrameWorker(bytes.upper)
        if asked.network == "9999":
            time.sleep(0.1)
        if asked.network != IDENTITY.network:
            raise MessageError("start both with the same model")
        return WholeFrameWorker(lambda content: self._compute(content))


@contextmanager
def both(compute: Callable[[bytes], bytes] = mirrored, faults: Faults | None = None) -> Iterator[Both]:
    sessions = Both(compute, faults or Faults(0, 0.0, ("lost",)))
    try:
        yield sessions
    finally:
        sessions.stop_server()


def test_frames_are_answered_whatever_their_size() -> None:
    with both() as sessions:
        assert sessions.ask(b"too early") is None
        assert "answered yet" in sessions.robot.complaint
        sessions.connect()
        for size in (0, 1, LARGEST, 3 * LARGEST + 5):
            content = bytes(range(256)) * (size // 256) + bytes(size % 256)
            assert sessions.ask(content) == content[::-1]
        assert not sessions.robot.complaint


def test_a_session_changes_its_model_in_the_place_that_it_has() -> None:
    with both() as sessions:
        sessions.connect()
        assert sessions.ask(b"12") == b"21"
        sessions.robot.change(OTHER)
        assert sessions.robot.complaint and sessions.ask(b"12") is None, "nothing computes meanwhile"
        sessions.connect()
        assert sessions.ask(b"ab") == b"AB"
        assert sessions.made == [IDENTITY.network, OTHER.network] and sessions.server.is_open


def test_a_session_whose_change_is_refused_keeps_its_place_and_changes_back() -> None:
    """The server's session ended with the refusal, and its place went to whoever greeted next."""
    with both() as sessions:
        sessions.connect()
        for _ in range(2):
            sessions.made.clear()
            sessions.robot.change(Identity(model="slow and broken", network="9999"))
            until(lambda: "refuses" in sessions.robot.complaint, sessions.robot.poll)
            sessions.robot.change(IDENTITY)
            sessions.connect()
            assert sessions.ask(b"12") == b"21"
            assert sessions.made == ["9999", IDENTITY.network], "greetings that were repeated meanwhile load nothing"
        sessions.robot.change(Identity(model="slow and broken", network="9999"))
        until(lambda: len(sessions.made) == 4, sessions.robot.poll)  # it is tried again, as long as the robot asks
        sessions.robot.change(OTHER)
        sessions.connect()
        assert sessions.ask(b"ab") == b"AB" and sessions.server.is_open


def test_no_greeting_overtakes_another() -> None:
    """The executor's thread had cut one for the model before; sent last, it had the server load that model again."""
    holds, goes_on = threading.Event(), threading.Event()
    sent: list[tuple[int, int]] = []

    def send(packet: Packet) -> None:
        if not sent and not holds.is_set():
            holds.set()
            goes_on.wait(PATIENCE_S)
        sent.append((packet.epoch, packet.kind))

    robot = WholeFrameSession("robot", IDENTITY, CONFIG, send)
    executor = threading.Thread(target=robot.poll)
    executor.start()
    holds.wait(PATIENCE_S)
    robot.change(OTHER)
    worker = threading.Thread(target=robot.poll)
    worker.start()
    worker.join(0.2)
    goes_on.set()
    for thread in (executor, worker):
        thread.join(PATIENCE_S)
    robot.close()
    robot.poll()
    assert sent == [(1, Kind.HELLO), (2, Kind.HELLO), (2, Kind.BYE)]


def test_an_old_greeting_before_the_present_one_leaves_no_session_that_only_spins() -> None:
    """The old one closed the service, and the other one was answered as if nothing had happened."""
    with both() as sessions:
        sessions.connect()
        before, hello = sessions.robot.epoch, written(sessions.robot._hello)
        with sessions.server._changed:  # both arrive before the serving thread looks
            for epoch in (before - 1, before):
                for packet in cut(hello, session="robot", epoch=epoch, kind=Kind.HELLO):
                    sessions.server.receive(packet)
        until(lambda: sessions.robot.epoch > before and sessions.robot.welcome is not None, sessions.robot.poll)
        assert sessions.ask(b"12") == b"21"


def test_a_late_answer_costs_one_deadline_and_a_probe_brings_the_server_back() -> None:
    slow = threading.Event()

    def compute(content: bytes) -> bytes:
        if slow.is_set():
            time.sleep(0.4)
        return mirrored(content)

    with both(compute) as sessions:
        sessions.connect()
        slow.set()
        started = time.monotonic()
        assert sessions.ask(b"1") is None
        assert sessions.ask(b"2") is None
        assert time.monotonic() - started < 2 * 0.3
        assert "no answer within 300 ms" in sessions.robot.complaint
        slow.clear()
        epoch = sessions.robot.epoch
        until(lambda: not sessions.robot.complaint, lambda: sessions.ask(b"3"))
        assert sessions.ask(b"45") == b"54"
        assert sessions.robot.epoch == epoch  # no frame depends on another, so the session went on


def test_more_time_may_be_given() -> None:
    def compute(content: bytes) -> bytes:
        time.sleep(0.4)
        return mirrored(content)

    with both(compute) as sessions:
        sessions.connect()
        assert sessions.ask(b"12", more_ms=5000.0) == b"21"


def test_a_frame_that_cannot_be_computed_says_why_and_ends_nothing() -> None:
    def compute(content: bytes) -> bytes:
        if content == b"bad":
            raise MessageError("that is no picture")
        return mirrored(content)

    with both(compute) as sessions:
        sessions.connect()
        started = time.monotonic()
        assert sessions.ask(b"bad") is None
        assert time.monotonic() - started < 0.2  # not the whole deadline
        assert sessions.robot.complaint == "that is no picture"
        until(lambda: not sessions.robot.complaint, lambda: sessions.ask(b"good"))
        assert sessions.ask(b"12") == b"21"


def test_a_bug_of_the_server_ends_the_session_and_another_starts() -> None:
    with both(lambda content: mirrored(content) if content else content[0:0] + bytes(1 // 0)) as sessions:
        sessions.connect()
        assert sessions.ask(b"") is None
        assert "internal error" in sessions.robot.complaint
        assert any("ZeroDivisionError" in complaint for complaint in sessions.complaints)
        sessions.connect()
        assert sessions.ask(b"12") == b"21"


@pytest.mark.parametrize("kind", ["lost", "twice", "late", "reordered", "damaged", "cut_off", "foreign", "past"])
def test_whatever_the_link_does(kind: str) -> None:
    with both(faults=Faults(1, 0.2, (kind,))) as sessions:
        answers = []

        def recover() -> None:
            sessions.robot.poll()
            sessions.ask(b"probe")

        for number in range(20):
            until(lambda: not sessions.robot.complaint, recover)
            content = bytes([number]) * 100 + b"x"
            answer = sessions.ask(content)
            assert answer in (None, content[::-1])
            answers.append(answer)
        harmless = kind in ("twice", "foreign", "past")
        assert all(answers) if harmless else sum(map(bool, answers)) >= 3


def test_a_server_that_ends_says_so_and_another_is_trusted() -> None:
    with both() as sessions:
        for _ in range(3):
            sessions.connect()
            assert sessions.ask(b"12") == b"21"
            sessions.stop_server()
            assert "the server ends" in sessions.robot.complaint
            assert sessions.ask(b"12") is None
            sessions.start_server()
        sessions.connect()


def test_a_refusal_says_why_and_ends_the_server_s_session() -> None:
    with both() as sessions:
        sessions.robot._hello = sessions.robot._hello.model_copy(update={"network": "something else"})
        until(lambda: "refuses" in sessions.robot.complaint, sessions.robot.poll)
        assert "same model" in sessions.robot.complaint
        sessions.thread.join(PATIENCE_S)
        assert not sessions.server.is_open and not sessions.thread.is_alive()


@pytest.mark.parametrize("kind", [Kind.FRAME, Kind.RESULT])
def test_a_packet_of_a_frame_that_was_never_sent_locks_nobody_out(kind: Kind) -> None:
    """A packet with the highest frame number once made everything after it count as late, for good."""
    with both() as sessions:
        sessions.connect()
        assert sessions.ask(b"12") == b"21"
        for packet in cut(b"", session="robot", epoch=sessions.robot.epoch, kind=kind, frame=2**32 - 1):
            (sessions.server if kind is Kind.FRAME else sessions.robot).receive(packet)
        assert sessions.ask(b"12") == b"21"


def test_both_ends_start_anew_after_some_failures_and_the_server_stays_one_that_fails() -> None:
    """An epoch whose first frame nobody sent makes the server wait for a frame that never comes."""
    with both() as sessions:
        sessions.connect()
        epoch = sessions.robot.epoch
        for packet in cut(b"", session="robot", epoch=epoch, kind=Kind.FRAME, frame=2**32 - 1):
            sessions.server.receive(packet)
        answers: list[bytes | None] = []

        def ask() -> None:
            sessions.robot.poll()
            answers.append(sessions.ask(b"12"))

        until(lambda: bool(answers and answers[-1]), ask)
        assert answers[0] is None
        assert sessions.robot.epoch == epoch + 1


def test_a_server_that_fails_stays_one_when_both_start_anew_and_another_one_is_trusted() -> None:
    with both() as sessions:
        sessions.connect()
        robot, first = sessions.robot, sessions.robot.welcome
        assert first is not None
        robot._frames._failures, robot._frames.complaint = 3, "no answer"
        robot.poll()
        until(lambda: robot.welcome is not None, robot.poll)
        assert robot.complaint == "no answer" and robot._frames.failures == 3
        robot._frames._failures = 6
        robot.poll()
        sessions.stop_server()
        sessions.start_server()
        until(lambda: robot.welcome is not None and robot.welcome.instance != first.instance, robot.poll)
        assert not robot.complaint and robot._frames.failures == 0


def test_a_result_that_is_too_large_is_said_to_be() -> None:
    with both() as sessions:
        sessions.robot = WholeFrameSession("robot", IDENTITY, CONFIG, sessions._to_server, most_output_bytes=10)
        sessions.connect()
        assert sessions.ask(bytes(5_000_000), more_ms=1e3 * PATIENCE_S) is None
        assert "max_output_bytes" in sessions.robot.complaint


def test_the_newest_frame_wins() -> None:
    newest = NewestContent(Kind.FRAME, 1000)

    def deliver(frame: int, content: bytes) -> None:
        for packet in cut(content, session="robot", epoch=1, kind=Kind.FRAME, frame=frame, largest=2):
            newest.deliver(packet)

    deliver(2, b"later")
    deliver(1, b"earlier")
    arrived = newest.take()
    assert arrived is not None and (arrived.frame, arrived.content) == (2, b"later")
    assert newest.take() is None
    deliver(2, b"again")
    assert newest.take() is None
    deliver(3, bytes(1001))
    assert newest.take() is None and newest.too_large == 3
    deliver(4, bytes(1000))
    assert newest.take() is not None
