# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A connection whose packets cannot be received counts as lost, and that is said."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator

import pytest
from sessions import until

from cacheinf_ros.fleet.frame_stream import Listening, PacketStream
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.packets import Kind, cut

PACKET = next(cut(b"content", session="robot", epoch=1, kind=Kind.START))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            yield one, other


def listen(connection: socket.socket, receive: Callable[[Packet], None]) -> list[str]:
    """Return a list to which the reason is added when the other end is lost."""
    lost: list[str] = []
    PacketStream(connection, Listening(receive=receive, lost=lambda *reason: lost.append(*reason)), "host").start()
    return lost


def test_a_machine_that_lost_power_is_missed_within_seconds(ends: tuple[socket.socket, socket.socket]) -> None:
    """The system would send again for a quarter of an hour."""
    stream = PacketStream(ends[0], Listening(receive=lambda packet: None, lost=lambda reason: None), "host")
    assert ends[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    idle, interval, probes = (
        ends[0].getsockopt(socket.IPPROTO_TCP, option)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    assert idle + interval * probes <= 10
    assert ends[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 10_000
    stream.close()


def test_packets_arrive_as_they_were_sent(ends: tuple[socket.socket, socket.socket]) -> None:
    received: list[Packet] = []
    lost = listen(ends[0], received.append)
    sender = PacketStream(ends[1], Listening(receive=received.append, lost=lambda reason: None), "gateway")
    sender.send(PACKET)
    until(lambda: received == [PACKET])
    sender.close()
    until(lambda: lost == [""])


def test_a_packet_that_ends_in_a_bug_ends_the_connection_with_a_reason(
    ends: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    def receive(packet: Packet) -> None:
        raise ValueError("the profile is ragged")

    with caplog.at_level(logging.ERROR):
        lost = listen(ends[0], receive)
        PacketStream(ends[1], Listening(receive=receive, lost=lambda reason: None), "gateway").send(PACKET)
        until(lambda: len(lost) == 1)
    assert "ValueError: the profile is ragged" in lost[0]
    (told,) = [record for record in caplog.records if record.exc_info]
    assert "packets of host" in told.getMessage()


@pytest.mark.parametrize("sent, reason", [(b"\xff" * 4, "is too long"), (b"\0\0\0\1x", "is cut off")])
def test_what_is_no_packet_ends_the_connection_with_a_reason(
    sent: bytes, reason: str, ends: tuple[socket.socket, socket.socket]
) -> None:
    lost = listen(ends[0], lambda packet: None)
    ends[1].sendall(sent)
    until(lambda: len(lost) == 1)
    assert lost[0].endswith(reason)
