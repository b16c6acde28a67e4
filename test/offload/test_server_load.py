# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server knows which share of its time frames take, and tells its robots."""

from __future__ import annotations

import struct
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload import HeardLoad, Packet, ServerLoad, frames_at_once
from cacheinf_ros.offload.protocol.load_content import load_content, load_from
from cacheinf_ros.offload.protocol.packets import Kind, cut
from cacheinf_ros.offload.protocol.transfer import Served
from cacheinf_ros.offload.server_load import BusyMeter


@given(st.floats(0.0, 1.0, width=32))
def test_what_is_told_is_heard(busy: float) -> None:
    assert load_from(load_content(busy)) == busy


@pytest.mark.parametrize("content", [b"", b"1234567", *(struct.pack("<f", x) for x in (-0.1, 1.1, float("nan")))])
def test_what_makes_no_sense_is_not_heard(content: bytes) -> None:
    assert load_from(content) is None


def test_the_last_seconds_count() -> None:
    meter = BusyMeter(at_once=2.0)
    assert meter.share(0.0) == 0.0
    meter.add(1.0, 10.0)
    meter.add(4.0, 12.0)
    assert meter.share(12.0) == pytest.approx(0.5)
    assert meter.share(15.5) == pytest.approx(0.4)
    assert meter.share(20.0) == 0.0
    for _ in range(10):
        meter.add(100.0, 20.0)
    assert meter.share(20.0) == 1.0


def done(took_ms: float, busy_ms: float) -> Packet:
    served = Served(took_ms=took_ms, waited_ms=0.0, busy_ms=busy_ms, last_bytes=0)
    (packet,) = cut(served.encode(), session="robot", epoch=1, kind=Kind.DONE, frame=1)
    return packet


def test_rows_and_whole_frames_count_but_not_what_others_computed_meanwhile() -> None:
    load, sent = ServerLoad(at_once=1.0), []
    send = load.watched(sent.append)
    send(done(2000.0, 1000.0))
    assert len(sent) == 1 and load.busy == pytest.approx(0.2)

    def compute(content: bytes) -> bytes:
        time.sleep(0.05)
        raise MessageError("a bad frame")

    with pytest.raises(MessageError):
        load.timed(compute)(b"")
    assert load.busy > 0.2


def test_a_gateway_tells_of_its_fleet() -> None:
    load, sent = ServerLoad(at_once=1.0, fleet=lambda: 0.7), []
    load.watched(sent.append)(done(5000.0, 5000.0))
    assert len(sent) == 1 and load.busy == 0.7, "the fleet has computed the rows"


def test_more_cores_compute_more_frames_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))
    assert frames_at_once(EngineConfig(threads=2)) == 4.0
    assert frames_at_once(EngineConfig(threads=16)) == 1.0
    assert frames_at_once(EngineConfig(threads=2, device="cuda:0")) == 1.0


def test_a_robot_hears_of_the_busiest_until_it_is_silent() -> None:
    heard = HeardLoad()
    assert heard.busy(0.0) == 0.0
    for session, busy in (("one", 0.5), ("other", 0.25)):
        for packet in ServerLoad(at_once=1.0, fleet=lambda busy=busy: busy).packets(session):  # type: ignore[misc]
            assert heard.hear(packet, 10.0 if session == "one" else 12.0)
    assert (heard.busy(12.0), heard.busy(16.0), heard.busy(20.0)) == (0.5, 0.25, 0.0)


def test_other_packets_are_left_to_sessions_and_damaged_ones_to_nobody() -> None:
    heard = HeardLoad()
    assert not heard.hear(done(1.0, 0.0), 0.0)
    (sound,) = cut(load_content(0.5), session="robot", epoch=0, kind=Kind.LOAD)
    assert heard.hear(replace(sound, checksum=0), 0.0) and heard.busy(0.0) == 0.0
    assert heard.hear(sound, 0.0) and heard.busy(0.0) == 0.5
