# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Both kinds of sessions with a malicious peer, whose messages have valid checksums and reach decoders."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing.mutation import mutated
from networks.shared_models import mixed_model
from oracle import changed
from partitions import nearest
from sessions import Both, ServerBeside, until
from workloads import surroundings

from cacheinf_ros.engine import Side
from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload import Identity, OffloadConfig, WholeFrameSession, WholeFrameWorker, Work
from cacheinf_ros.offload.planning import Workload
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload.protocol import robot_session, row_service, row_session, server_session, transfer
from cacheinf_ros.offload.protocol.packets import Kind, Packet
from cacheinf_ros.offload.protocol.schedule_request import ScheduleRequest
from cacheinf_ros.offload.searching.search_messages import (
    most_table_bytes,
    question_bytes,
    question_of,
    table_bytes,
    table_of,
)
from cacheinf_ros.sources import decode_picture

MODEL = mixed_model()
SECONDS = float(os.environ.get("CACHEINF_FUZZ_SECONDS", "4"))
"""The seconds that each test takes."""
CONFIG = OffloadConfig(server_deadline_ms=400.0, probe_s=0.01, probe_max_s=0.01)
DECODED = (
    Kind.HELLO, Kind.WELCOME, Kind.START, Kind.ROWS, Kind.DONE, Kind.FRAME, Kind.RESULT, Kind.SEARCH, Kind.SCHEDULES,
)  # fmt: skip
"""The kinds of packets whose content is more than text."""


class Malice:
    """A replacement of :class:`faults.Faults` that damages contents and corrects their checksums.

    Only the first greeting of an epoch is damaged: of those that repeat it a server reads the latest, and none once it
    has agreed.

    Attributes:
        sent: the damaged contents sent so far.
        reached: those of the damaged contents that reached a decoder.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.sent: set[bytes] = set()
        self.reached: set[bytes] = set()
        self._random = random.Random(0)
        self._greeted: int | None = None  # the epoch of the latest greeting

    def __call__(self, packet: Packet, receiver: str) -> list[Packet]:
        if packet.kind == Kind.HELLO:
            is_repeated, self._greeted = packet.epoch == self._greeted, packet.epoch
            if is_repeated:
                return [packet]
        if packet.kind not in DECODED or self._random.random() >= self.share:
            return [packet]
        data = mutated(packet.data, self._random)
        if data == packet.data:
            return [packet]
        self.sent.add(data)
        return [replace(packet, data=data).sealed()]

    def watch(self, decode: Callable[..., Any]) -> Callable[..., Any]:
        """Return the decoder with a record of what it is given."""

        def watched(content: Any, *arguments: Any, **options: Any) -> Any:
            data = content.data if isinstance(content, Packet) else content
            if data in self.sent:
                self.reached.add(data)
            return decode(content, *arguments, **options)

        return watched


def watch(malice: Malice, where: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, name, malice.watch(getattr(where, name)))


def assert_mostly_reached(malice: Malice, sessions: ServerBeside) -> None:
    assert len(malice.sent) > 10
    assert len(malice.reached) > len(malice.sent) / 2, f"{len(malice.reached)} of {len(malice.sent)}"
    assert "Traceback" not in "".join(sessions.complaints)


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    malice, rng = Malice(0.0), np.random.default_rng(0)
    for where, name in (
        (row_service, "decode_start"), (transfer, "decode_patch"), (server_session, "read_hello"),
        (robot_session, "read_welcome"),
    ):  # fmt: skip
        watch(malice, where, name, monkeypatch)
    measure = row_session.RowSession._measure

    def measured(session: Any, packet: Packet) -> None:
        malice.watch(lambda done: measure(session, done))(packet)

    monkeypatch.setattr(row_session.RowSession, "_measure", measured)
    sessions = Both(MODEL, config=CONFIG)
    sessions.faults = malice  # type: ignore[assignment]
    try:
        engine = sessions.engine
        assert engine.shared is not None
        space, image, cache_map = engine.shared.space, rng.integers(0, 256, (90, 80, 3), np.uint8), None
        splits = [space.everything_at(Side.SERVER)] + [
            nearest(space, dict.fromkeys(space.heights, share)) for share in (0.3, 0.7)
        ]
        asking = Asking(sessions, malice)
        ends, frames, shared = time.monotonic() + SECONDS, 0, 0
        while time.monotonic() < ends or frames < 20:
            _connect(sessions)
            malice.share = 0.15
            asking.go_on()
            sessions.robot.poll()
            split = splits[frames % len(splits)]
            result = engine.run(image, cache_map, sessions.robot.frame(lambda _, split=split: split))  # type: ignore[misc]
            assert all(np.isfinite(output).all() for output in result.outputs.values())
            image, cache_map = changed(image, 5, 0.05, rng)
            frames += 1
            shared += result.where == "shared"
        malice.share = 0.0
        _connect(sessions)
        assert shared > 0 and asking.found > 0
        assert_mostly_reached(malice, sessions)
    finally:
        sessions.stop_server()


class Asking:
    """A robot that requests schedules over the same link again and again, with replies."""

    def __init__(self, sessions: Both, malice: Malice) -> None:
        assert sessions.engine.shared is not None
        self._robot, self._work = sessions.robot, Workload(sessions.engine.program.layout, sessions.engine.shared.space)
        self._ask, self._take = malice.watch(question_of), malice.watch(table_of)
        self._machines = surroundings(self._work, 0, 2.0)
        self._table = table_bytes(solve(self._work, self._machines, time_limit_s=0))
        self._request: ScheduleRequest | None = None
        self.found = self.refused = 0
        sessions.find = self._find

    def go_on(self) -> None:
        """Take a reply that has come, and send the next request."""
        request = self._request
        if request is not None and request.answer is not None:
            try:
                self._work.space.check(self._work.partition_of(self._take(request.answer, self._work).rows[0, 0]))
                self.found += 1
            except MessageError:
                self.refused += 1
        if request is None or request.answer is not None or request.refusal:
            question = question_bytes(self._work, self._machines, 1.0)
            self._request = ScheduleRequest(question, most_table_bytes(self._work))
            self._robot.poll(self._request)

    def _find(self, session: str, question: bytes) -> bytes:
        self._ask(question, self._machines.server_ms)
        return self._table


def _connect(sessions: ServerBeside) -> None:
    """Connect by a greeting that gets through undamaged; replace sessions that refused a damaged one."""

    def meanwhile() -> None:
        if not sessions.server.is_open:
            sessions.thread.join()
            sessions.start_server()
        sessions.robot.poll()

    until(lambda: sessions.robot.welcome is not None, meanwhile)


class WholeFrames(ServerBeside):
    """Sessions as in the nodes, where pictures are sent and results come back."""

    def __init__(self, malice: Malice, answer: bytes) -> None:
        self.faults = malice  # type: ignore[assignment]
        self.complaints: list[str] = []
        self.compute = malice.watch(self._compute)
        self.answer = answer
        self.robot = WholeFrameSession("robot", Identity(model="model", network="1234"), CONFIG, self._to_server)
        self.start_server()

    def _worker(self, asked: Identity, work: Work) -> WholeFrameWorker:
        if asked.network != "1234":
            raise MessageError("start both with the same model")
        return WholeFrameWorker(self.compute)

    def _compute(self, content: bytes) -> bytes:
        decode_picture(content[8:])
        return self.answer


def test_whole_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = pytest.importorskip("cacheinf_ros.nodes.packet_messages", reason="needs ROS 2")
    seeds = Path(__file__).parents[2] / "fuzzing" / "seeds"
    malice = Malice(0.0)
    read = malice.watch(messages.result_from)
    watch(malice, server_session, "read_hello", monkeypatch)
    watch(malice, robot_session, "read_welcome", monkeypatch)
    sessions = WholeFrames(malice, (seeds / "result" / "1").read_bytes())
    content = (seeds / "frame" / "0").read_bytes()
    try:
        ends, asked, answered = time.monotonic() + SECONDS, 0, 0
        while time.monotonic() < ends or asked < 20:
            _connect(sessions)
            malice.share = 0.3
            ticket = sessions.robot.request()
            if ticket is None:
                continue
            sessions.robot.send(ticket, content)
            asked += 1
            answer = sessions.robot.result(ticket)
            try:
                answered += answer is not None and bool(read(answer))
            except MessageError as error:
                sessions.robot.fail(sessions.robot.epoch, str(error))
        assert answered > 0
        assert_mostly_reached(malice, sessions)
    finally:
        sessions.stop_server()
