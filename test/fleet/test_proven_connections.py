# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Clients without the key or silent ones keep nobody out, and a silent process is not waited for."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from fleets import MODEL
from sessions import ENGINE, until

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogServerConfig
from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet import proven_connections
from cacheinf_ros.fleet.frame_stream import Address, Listening, connect
from cacheinf_ros.fleet.host import HostSetting, SessionHost
from cacheinf_ros.fleet.proven_connections import ProvenListener, proven_connection
from cacheinf_ros.graph import load_model
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline.node_configs import ModelConfig

KEY = bytes(range(32))


@pytest.fixture
def taken() -> list[socket.socket]:
    return []


@pytest.fixture
def listener(taken: list[socket.socket]) -> Iterator[ProvenListener]:
    made = ProvenListener("127.0.0.1", KEY, taken.append)
    yield made
    made.close()
    for each in taken:
        each.close()


def silent(address: Address, count: int, stack: ExitStack) -> list[socket.socket]:
    """Connect clients that say nothing."""
    return [stack.enter_context(socket.create_connection(address)) for _ in range(count)]


def connected(address: Address, key: bytes) -> list[str]:
    """Connect to a process in a thread; returns a list to which the outcome is added, empty text for success."""
    ends: list[str] = []

    def try_it() -> None:
        listening = Listening(receive=lambda packet: None, lost=lambda *reason: None)
        try:
            connect(address, key, listening, "test").close()
            ends.append("")
        except LinkError as error:
            ends.append(str(error))

    threading.Thread(target=try_it, daemon=True).start()
    return ends


def test_a_client_that_says_nothing_keeps_no_gateway_out_of_a_process() -> None:
    asked = Identity.of(load_model(MODEL))
    setting = HostSetting(
        asked=asked, model=ModelConfig(model=MODEL), catalogs=CatalogServerConfig(), engine=ENGINE, share_weights=False
    )
    host = SessionHost(setting)
    try:
        with ExitStack() as stack:
            silent(host.address, 3, stack)
            ends = connected(host.address, host.key)
            until(lambda: ends == [""])
    finally:
        host.close()


def test_a_process_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process does this: the system accepts connections for it."""
    monkeypatch.setattr(proven_connections, "PROOF_S", 0.3, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        ends = connected(stopped.getsockname()[:2], KEY)
        until(lambda: len(ends) == 1)
    assert ends[0].startswith("no process computes at 127.0.0.1:") and ends[0].endswith("timed out")


def test_what_is_sent_arrives_at_both_ends(listener: ProvenListener, taken: list[socket.socket]) -> None:
    with proven_connection(listener.address, KEY) as gateway:
        until(lambda: len(taken) == 1)
        assert gateway.gettimeout() is None and taken[0].gettimeout() is None
        gateway.sendall(b"frame")
        assert taken[0].recv(100) == b"frame"
        taken[0].sendall(b"result")
        assert gateway.recv(100) == b"result"


def test_who_does_not_know_the_key_is_turned_away(listener: ProvenListener, taken: list[socket.socket]) -> None:
    with pytest.raises(LinkError, match=r"no process computes at .* it has hung up"):
        proven_connection(listener.address, KEY[::-1])
    with socket.create_connection(listener.address) as stranger:
        number = stranger.recv(100)
        stranger.sendall(number + number)
        assert stranger.recv(100) == b"", "nothing that it could use elsewhere"
    assert not taken


def test_a_process_that_does_not_know_the_key_is_not_believed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ends = connected(other.getsockname()[:2], KEY)
        connection, _ = other.accept()
        with connection:
            connection.sendall(bytes(64))
            until(lambda: len(ends) == 1)
    assert ends[0].endswith("it does not know the key")


def test_time_counts_from_the_first_byte(listener: ProvenListener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven_connections, "PROOF_S", 0.4)
    with socket.create_connection(listener.address) as slow:
        assert len(slow.recv(100)) == 32
        began_s = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began_s < 10.0:
                slow.sendall(b"x")  # far too few to be done in time, but never silent
                time.sleep(0.05)


def test_of_too_many_that_say_nothing_the_first_have_to_go(
    listener: ProvenListener, taken: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proven_connections, "PROOF_S", 60.0)
    with ExitStack() as stack:
        strangers = silent(listener.address, proven_connections._MOST_PROVING + 3, stack)
        for each in strangers[:3]:
            each.settimeout(20.0)
            assert len(each.recv(100)) == 32 and each.recv(100) == b""
        stack.enter_context(proven_connection(listener.address, KEY))
        until(lambda: len(taken) == 1)
        strangers[-1].settimeout(0.1)
        assert len(strangers[-1].recv(100)) == 32
        with pytest.raises(TimeoutError):
            strangers[-1].recv(100)


def test_whatever_fails_it_listens_on(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[socket.socket] = []

    def take(connection: socket.socket) -> None:
        taken.append(connection)
        if len(taken) == 1:
            raise RuntimeError("can't start new thread")

    listener = ProvenListener("127.0.0.1", KEY, take)
    try:
        with proven_connection(listener.address, KEY) as first:
            assert first.recv(100) == b"", "it is not left without an answer"
        with proven_connection(listener.address, KEY):
            until(lambda: len(taken) == 2)
    finally:
        listener.close()
        taken[-1].close()
