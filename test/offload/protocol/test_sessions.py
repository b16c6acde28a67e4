# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Over a link that loses, repeats, delays, damages and reorders, every frame is right, and sessions recover."""

from __future__ import annotations

import math
import random
import threading
import time

import numpy as np
import pytest
from networks.shared_models import mixed_model
from oracle import assert_result_equals_dense, changed
from partitions import nearest
from sessions import OFFLOAD, PATIENCE_S, Both, both, until

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Caching, FrameStart, Partition, PartitionWorker, Side
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.partition.exchange import Exchange
from cacheinf_ros.errors import LinkError
from cacheinf_ros.offload.protocol import robot_session
from cacheinf_ros.offload.protocol.link_faults import Faults
from cacheinf_ros.offload.protocol.packets import Kind, Packet, cut
from cacheinf_ros.offload.protocol.server_session import IDLE_S
from cacheinf_ros.offload.protocol.transfer import Served

MODEL = mixed_model()


class Stream:
    """A stream of frames that change a little, each checked against dense execution."""

    def __init__(self, sessions: Both, seed: int = 0) -> None:
        self._sessions = sessions
        self._rng = np.random.default_rng(seed)
        self._image = self._rng.integers(0, 256, (90, 80, 3), dtype=np.uint8)
        self._map: CacheMap | None = None
        self.shared = 0

    def next(self) -> str:
        """Compute one frame; returns why it was not shared, or nothing."""
        engine, robot = self._sessions.engine, self._sessions.robot
        assert engine.shared is not None
        space = engine.shared.space
        shares = self._rng.choice([0.0, 0.5, 1.0], len(space.heights))
        partition: Partition | None = space.everything_at(Side.SERVER)
        kind = self._rng.random()
        if kind < 0.2:
            partition = None
        elif kind < 0.8:
            partition = nearest(space, dict(zip(space.heights, shares.tolist(), strict=True)))
        partner = robot.frame(lambda _: partition)
        result = engine.run(self._image, self._map, partner)
        assert_result_equals_dense(engine, result, self._image)
        self._image, self._map = changed(self._image, 5, 0.05, self._rng)
        complaint = engine.shared.complaint if partner is not None else robot.complaint
        if partition is not None and result.where != "shared":
            complaint = complaint or "it was not waited for"
        self.shared += not complaint
        return complaint


@pytest.mark.parametrize("caching", [None, Caching.nothing(lay_out(MODEL.graph))])
def test_frames_are_shared(caching: Caching | None) -> None:
    """This also holds where only maps that must be kept are kept, which the server is told."""
    with both(MODEL, caching=caching) as sessions:
        stream = Stream(sessions)
        assert "answered yet" in stream.next()
        sessions.connect()
        assert [stream.next() for _ in range(10)] == [""] * 10
        assert sessions.robot.up.mbit_s > 1


@pytest.mark.parametrize("kind", ["lost", "twice", "late", "reordered", "damaged", "cut_off", "foreign", "past"])
def test_whatever_the_link_does(kind: str) -> None:
    harmless = kind in ("twice", "foreign", "past")
    with both(MODEL, Faults(1, 0.3 if harmless else 0.03, (kind,))) as sessions:
        stream = Stream(sessions)
        for _ in range(15):
            sessions.connect()
            stream.next()
        assert stream.shared == 15 if harmless else stream.shared >= 3


def test_a_server_that_is_killed_and_started_again() -> None:
    with both(MODEL) as sessions:
        stream = Stream(sessions)
        for _ in range(5):
            sessions.connect()
            assert stream.next() == ""
            sessions.stop_server()
            sessions.faults.is_cut = True
            assert stream.next()
            sessions.faults.is_cut = False
            sessions.start_server()
        sessions.connect()
        assert stream.next() == ""


def test_a_server_that_is_replaced_between_frames() -> None:
    """No frame fails, although the new server knows nothing of what was sent to the old one."""
    with both(MODEL) as sessions:
        sessions.connect()
        stream = Stream(sessions)
        for _ in range(3):
            assert stream.next() == ""
        for _ in range(3):
            sessions.stop_server()
            sessions.start_server()
            sessions.robot.fail(sessions.robot.epoch, "the server is silent")
            sessions.connect()
            assert [stream.next() for _ in range(3)] == [""] * 3


def test_a_new_server_is_noticed_by_its_greeting() -> None:
    with both(MODEL) as sessions:
        sessions.connect()
        epoch = sessions.robot.epoch
        sessions.stop_server()
        sessions.start_server()
        until(lambda: sessions.robot.epoch > epoch and not sessions.robot.complaint, sessions.robot.poll)
        assert Stream(sessions).next() == ""


def test_a_server_that_ends_says_so() -> None:
    with both(MODEL) as sessions:
        sessions.connect()
        assert Stream(sessions).next() == ""
        sessions.stop_server()
        assert "the server ends" in sessions.robot.complaint
        assert sessions.robot.frame(lambda _: None) is None
        sessions.start_server()
        sessions.connect()
        assert Stream(sessions).next() == ""


def test_a_robot_that_ends_says_so_and_greets_no_more() -> None:
    with both(MODEL) as sessions:
        sessions.connect()
        said: list[Packet] = []
        sessions.robot._send = said.append
        sessions.robot.close()
        assert [packet.ends_session for packet in said] == [True]
        assert sessions.robot.complaint and sessions.robot.frame(lambda _: None) is None
        sessions.robot._next_hello = 0.0
        sessions.robot.poll()
        sessions.robot.receive(said[0])
        assert len(said) == 1


def test_the_time_of_the_server_is_summed_once_for_each_frame_and_cannot_be_made_up() -> None:
    with both(MODEL) as sessions:
        sessions.connect()
        stream = Stream(sessions)
        while sessions.robot._sent is None or sessions.robot._sent.arrived is None:
            assert stream.next() == ""
        sent = sessions.robot._sent
        frame = sent.frame
        until(lambda: sessions.robot.served is not None and sessions.robot.served[0][1] == frame)
        said, before = sessions.robot.served, sessions.robot.served_ms
        for took_ms in (np.nan, np.inf, -1.0, 1e9):
            (packet,) = cut(
                Served(took_ms=took_ms, waited_ms=0.0, busy_ms=1.0, last_bytes=100_000).encode(),
                session="robot",
                epoch=sessions.robot.epoch,
                kind=Kind.DONE,
                frame=frame,
            )
            sessions.robot.served = said
            sessions.robot.receive(packet)
            assert sessions.robot.served_ms == before
            sessions.robot.served = None  # as if nothing had been said of it
            sessions.robot.receive(packet)
            assert 0 <= sessions.robot.served_ms - before <= 1e3 * (time.monotonic() - sent.at)
            before = sessions.robot.served_ms
            assert math.isfinite(sessions.robot.down.bytes_per_ms)


def slow_with_pictures(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let servers take so long for a completely new picture, and proportionally less for partial changes."""
    compute_part = PartitionWorker.compute_part

    def slow(self: PartitionWorker, start: FrameStart, exchange: Exchange) -> None:
        time.sleep(seconds * start.pixels.mask.mean())
        compute_part(self, start, exchange)

    monkeypatch.setattr(PartitionWorker, "compute_part", slow)


def film_until_shared(sessions: Both, gap_s: float = 0.05) -> list[tuple[bool, str]]:
    """Have the server compute every frame until five in a row were shared.

    Returns:
        For each frame whether the server was asked for it, and where it was computed.
    """
    robot, engine = sessions.robot, sessions.engine
    assert engine.shared is not None
    everything = engine.shared.space.everything_at(Side.SERVER)
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (90, 80, 3), dtype=np.uint8)
    cache_map: CacheMap | None = None
    frames: list[tuple[bool, str]] = []
    deadline = time.monotonic() + PATIENCE_S
    while [where for _, where in frames[-5:]] != ["shared"] * 5:
        assert time.monotonic() < deadline, (frames, robot.complaint)
        robot.poll()
        partner = robot.frame(lambda _: everything)
        result = engine.run(image, cache_map, partner)
        assert_result_equals_dense(engine, result, image)
        frames.append((partner is not None, result.where))
        image, cache_map = changed(image, 5, 0.02, rng)
        time.sleep(gap_s)
    return frames


QUICK = OFFLOAD.changed(server_deadline_ms=250.0)


def test_a_server_that_is_slow_with_whole_pictures_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds even if a picture takes longer than a server may be silent, and the scene changes meanwhile."""
    monkeypatch.setattr(robot_session, "_SILENT_S", 0.3)
    slow_with_pictures(monkeypatch, 0.8)
    with both(MODEL, config=QUICK) as sessions:
        sessions.connect()
        frames = film_until_shared(sessions)
        assert frames[0] == (True, "local"), "it was waited for, in vain"
        asked = [where for was_asked, where in frames if was_asked]
        caught_up = asked.index("shared")
        assert 2 <= caught_up <= 6 and set(asked[caught_up:]) == {"shared"}
        assert sessions.robot.epoch == 2 and not sessions.complaints


@pytest.mark.parametrize(("kind", "ends"), [(Kind.START, "server"), (Kind.DONE, "robot")])
def test_a_lost_packet_does_not_end_the_catching_up_for_good(
    kind: Kind, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_with_pictures(monkeypatch, 0.5)
    with both(MODEL, config=QUICK) as sessions:
        sessions.connect()
        first = sessions.robot.epoch
        lost: list[Packet] = []

        def arrive(packet: Packet, end: str) -> list[Packet]:
            if end == ends and packet.kind == kind and packet.epoch == first + 1 and packet.frame == 1:
                lost.append(packet)
                return []
            return [packet]

        monkeypatch.setattr(sessions, "faults", arrive)
        film_until_shared(sessions)
        assert lost and sessions.robot.epoch > first + 1


def test_a_frame_that_nobody_waits_for_brings_the_server_up_to_date() -> None:
    """The robot alone would finish sooner than a server that lacks the whole picture."""
    with both(MODEL) as sessions:
        sessions.connect()
        robot, engine = sessions.robot, sessions.engine
        assert engine.shared is not None
        everything = engine.shared.space.everything_at(Side.SERVER)
        rng = np.random.default_rng(0)
        image, cache_map = rng.integers(0, 256, (90, 80, 3), dtype=np.uint8), None
        where: list[str] = []
        epochs: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        while where[-3:] != ["shared"] * 3:
            assert time.monotonic() < deadline
            robot.poll()
            partner = robot.frame(lambda _: everything)
            if partner is not None and "shared" not in where and len(where) < 2:
                partner.is_awaited = False  # as the choice for this frame says
            result = engine.run(image, cache_map, partner)
            assert_result_equals_dense(engine, result, image)
            where.append(result.where if partner is not None else "catching up")
            epochs.append(robot.epoch)
            image, cache_map = changed(image, 5, 0.02, rng)
        first = where.index("shared")
        assert where[0] == "local"
        if epochs[first] == epochs[0]:  # else a frame took longer than the deadline: all began anew
            assert set(where[first:]) == {"shared"}


def test_only_a_server_that_was_late_must_catch_up_within_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that nobody was to wait for may take longer: the frames after it are smaller."""
    slow_with_pictures(monkeypatch, 0.5)
    with both(MODEL, config=QUICK) as sessions:
        sessions.connect()
        robot, engine = sessions.robot, sessions.engine
        assert engine.shared is not None
        everything = engine.shared.space.everything_at(Side.SERVER)
        image = np.random.default_rng(0).integers(0, 256, (90, 80, 3), dtype=np.uint8)
        first = robot.frame(lambda _: everything)
        assert first is not None
        first.is_awaited = False
        assert engine.run(image, None, first).where == "local"
        until(lambda: robot.frame(lambda _: everything) is not None)
        next_one = robot.frame(lambda _: everything)
        assert next_one is not None and next_one.is_awaited and robot.epoch == 1


def test_a_session_says_how_long_it_has_been_at_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose kernel hangs is stuck, and must say so."""
    begun, goes_on = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        begun.set()
        goes_on.wait(PATIENCE_S)
        raise LinkError("it hung")

    monkeypatch.setattr(PartitionWorker, "compute_part", hang)
    with both(MODEL, config=QUICK) as sessions:
        sessions.connect()
        assert sessions.engine.shared is not None
        everything = sessions.engine.shared.space.everything_at(Side.SERVER)
        sessions.engine.run(np.zeros((90, 80, 3), np.uint8), None, sessions.robot.frame(lambda _: everything))
        assert begun.wait(PATIENCE_S)
        until(lambda: sessions.server.busy_s > 2 * IDLE_S)
        goes_on.set()
        until(lambda: sessions.server.busy_s <= IDLE_S)


def test_another_network_is_refused() -> None:
    with both(MODEL) as sessions:
        sessions.robot._hello = sessions.robot._hello.model_copy(update={"network": "something else"})
        until(lambda: "refuses" in sessions.robot.complaint, sessions.robot.poll)
        assert "same model" in sessions.robot.complaint


def test_random_packets_do_no_harm() -> None:
    rng = random.Random(0)
    with both(MODEL) as sessions:
        sessions.connect()
        stream = Stream(sessions)
        for _ in range(3000):
            data = rng.randbytes(rng.randrange(60))
            packet = Packet(
                session="robot", epoch=rng.choice([0, 1, 2**31]), kind=rng.randrange(max(Kind) + 2),
                frame=rng.randrange(4), tensor=rng.randrange(70), part=rng.randrange(3), parts=rng.randrange(4),
                data=data,
            )  # fmt: skip
            packet = rng.choice([packet, packet.sealed()])
            if packet.kind not in (Kind.HELLO, Kind.FAILED):
                sessions.server.receive(packet)
                sessions.robot.receive(packet)
        for _ in range(6):
            sessions.connect()
            stream.next()
        assert stream.shared >= 3
