# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A peer cannot make models compile for ever, keep a dead session open, or have NaN accepted."""

from __future__ import annotations

import gc
import struct
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks.shared_models import mixed_model
from oracle import assert_result_equals_dense
from partitions import nearest
from sessions import OFFLOAD, PATIENCE_S, both, until

from cacheinf_ros.engine import Side
from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.errors import MOST_CHARACTERS, MessageError
from cacheinf_ros.offload import Identity, OffloadConfig, WholeFrameSession, WholeFrameWorker, Work
from cacheinf_ros.offload.protocol import transfer
from cacheinf_ros.offload.protocol.frames import WireType
from cacheinf_ros.offload.protocol.packets import Kind, Packet, cut, text_of
from cacheinf_ros.offload.protocol.patches import decode_patch, encode_patch
from cacheinf_ros.offload.protocol.server_session import ServerSession

MODEL = mixed_model()
IMAGE = np.random.default_rng(0).integers(0, 256, (90, 80, 3), np.uint8)


def greeted(server: ServerSession) -> None:
    """Let a robot greet the server."""
    robot = WholeFrameSession(server.name, Identity(model="m", network="0"), OFFLOAD, server.receive)
    robot.poll()


def failing_with(error: Exception) -> Callable[[Identity, Work], WholeFrameWorker]:
    def make(asked: Identity, work: Work) -> WholeFrameWorker:
        raise error

    return make


@pytest.mark.parametrize("error", [ValueError("a bug"), MemoryError(), MessageError("no such model")])
def test_a_model_that_cannot_be_compiled_is_refused(error: Exception) -> None:
    answers: list[Packet] = []
    complaints: list[str] = []
    server = ServerSession("robot", failing_with(error), answers.append, complaints.append)
    greeted(server)
    thread = threading.Thread(target=server.serve)
    thread.start()
    thread.join(PATIENCE_S)
    assert not server.is_open and not thread.is_alive()
    assert [answer.kind for answer in answers] == [Kind.REFUSED] and len(complaints) == 1


def test_a_session_whose_thread_ends_is_not_open() -> None:
    """This holds even where the last resort fails, telling the operator or sending to the robot."""

    def broken(*_: object) -> None:
        raise RuntimeError("the node is gone")

    server = ServerSession("robot", failing_with(ValueError("a bug")), broken, broken)
    greeted(server)
    with pytest.raises(RuntimeError, match="the node is gone"):
        server.serve()
    assert not server.is_open


def test_what_a_session_computed_with_goes_when_it_ends() -> None:
    """The worker goes at once, although the function that made it knows the session: robots come and go."""

    def make(asked: Identity, work: Work) -> WholeFrameWorker:
        assert server.is_open
        made.append(weakref.ref(worker := WholeFrameWorker(lambda content: content)))
        return worker

    made: list[weakref.ref[WholeFrameWorker]] = []
    server = ServerSession("robot", make, lambda packet: None, lambda complaint: None)
    greeted(server)
    thread = threading.Thread(target=server.serve)
    gc.disable()
    try:
        thread.start()
        until(lambda: bool(made))
        server.close()
        thread.join(PATIENCE_S)
        assert made[0]() is None
    finally:
        gc.enable()


def test_a_robot_that_is_refused_greets_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("cacheinf_ros.offload.protocol.robot_session.time.monotonic", lambda: now)
    greetings: list[float] = []
    config = OffloadConfig(probe_s=0.5, probe_max_s=4.0)

    def answer(packet: Packet) -> None:
        greetings.append(now)
        for refusal in cut(b"no", session="robot", epoch=packet.epoch, kind=Kind.REFUSED):
            robot.receive(refusal)

    robot = WholeFrameSession("robot", Identity(model="m", network="0"), config, answer)
    while now < 120:
        robot.poll()
        now += 0.05
    between = np.diff(greetings)
    assert between[0] < 1 and (between[3:] > 3.9).all() and len(greetings) < 10


def test_words_of_others_are_one_short_line() -> None:
    """Such texts go into logs that terminals display."""
    (packet,) = cut(b"no\n[ERROR] \x1b[2Jroom\xff" + b"x" * 10_000, session="robot", epoch=1, kind=Kind.REFUSED)
    text = text_of(packet)
    assert text.startswith("no [ERROR]  [2Jroom") and text.isprintable() and len(text) == MOST_CHARACTERS


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("wire", [WireType.FLOAT32, WireType.FLOAT16])
def test_rows_that_are_no_numbers_are_refused(bad: float, wire: WireType) -> None:
    values = np.ones((4, 2), np.float32)
    values[2, 1] = bad
    content = encode_patch(Patch(rows=(0, 2), mask=np.ones((2, 2), np.uint8), values=values), wire)
    with pytest.raises(MessageError, match="no finite number"):
        decode_patch(content, (0, 2), 2, 2)


def test_scales_that_are_no_numbers_are_refused() -> None:
    sound = Patch(rows=(0, 2), mask=np.ones((2, 2), np.uint8), values=np.ones((4, 1), np.float32))
    content = bytearray(encode_patch(sound, WireType.INT8))
    struct.pack_into("<f", content, 14, np.nan)
    with pytest.raises(MessageError, match="no finite number"):
        decode_patch(bytes(content), (0, 2), 2, 1)


@pytest.mark.parametrize("value", [np.nan, 1e38])
def test_a_server_that_sends_nonsense_costs_sharing_and_no_result(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN is refused when it is received, and numbers that lead to NaN after it."""
    patient = OFFLOAD.changed(server_deadline_ms=1e3 * PATIENCE_S)  # on a busy machine rows were late instead
    with both(MODEL, config=patient) as sessions:
        sessions.connect()
        shared = sessions.engine.shared
        assert shared is not None
        split = shared.space.everything_at(Side.SERVER)
        encode = transfer.encode_patch

        def forged(patch: Patch, *arguments: Any, **options: Any) -> bytes:
            values = (
                np.full_like(patch.values, value) if threading.current_thread() is sessions.thread else patch.values
            )
            return encode(Patch(rows=patch.rows, mask=patch.mask, values=values), *arguments, **options)

        monkeypatch.setattr(transfer, "encode_patch", forged)
        epoch = sessions.robot.epoch
        half = nearest(shared.space, dict.fromkeys(shared.space.heights, 0.5))
        for each in (split, half):
            until(lambda: not sessions.robot.complaint, sessions.robot.poll)
            peer = sessions.robot.frame(lambda _, each=each: each)  # type: ignore[misc]
            result = sessions.engine.run(IMAGE, None, peer)
            if value != value or each is half:
                assert result.where == "local" and "finite" in shared.complaint
                assert_result_equals_dense(sessions.engine, result, IMAGE)
                assert sessions.robot.epoch > epoch
