# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's memory is recorded once no robot has used it for a while; test_soak checks it with real nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.harness.resources import ResourceWatch
from cacheinf_ros.harness.server_rests import Rest, ServerReport, ServerRests


class Station:
    """A station that states how many robots are at the server, and records which policies were set."""

    def __init__(self) -> None:
        self.there = 1
        self.policies: dict[str, str] = {}

    def said(self, node: str) -> dict[str, str]:
        return {"sharing robots": str(self.there)}

    def tune(self, node: str, parameter: str, value: str, answered: Callable[[str], None]) -> None:
        assert parameter == "server.policy"
        self.policies[node] = value


class Robot:
    """A robot without a process."""

    def __init__(self, full_name: str, *, is_up: bool) -> None:
        self.full_name, self.is_up = full_name, is_up


@pytest.fixture
def station() -> Station:
    return Station()


@pytest.fixture
def rests(station: Station) -> ServerRests:
    server = SimpleNamespace(full_name="server", is_up=True)
    resources = ResourceWatch()
    resources.watch("server", os.getpid())
    robots = [Robot("a", is_up=True), Robot("b", is_up=False)]
    return ServerRests(cast(Any, station), resources, cast(Any, server), cast(Any, robots), ["remote", "cacheinf"])


def test_memory_is_noted_once_the_server_has_been_empty_for_a_while(station: Station, rests: ServerRests) -> None:
    assert not rests.poll(0.0)
    rests.begin(10.0)
    assert rests.is_on
    assert rests.poll(10.0)
    assert station.policies == {"/a": "local"}, "the other one is not up"
    station.there = 0
    assert rests.poll(11.0)
    station.there = 1  # another robot came
    assert rests.poll(14.0)
    station.there = 0
    assert rests.poll(15.0)
    assert rests.poll(18.0)
    assert not rests.poll(20.0)
    assert not rests.is_on
    assert station.policies == {"/a": "remote"}
    (rest,) = rests.found
    assert (rest.at_s, rest.pid) == (20.0, os.getpid())
    assert rest.resident_bytes > 0


def test_a_server_that_is_never_empty_is_not_waited_for_any_longer(station: Station, rests: ServerRests) -> None:
    rests.begin(0.0)
    assert all(rests.poll(float(now)) for now in range(45))
    assert not rests.poll(46.0)
    assert station.policies == {"/a": "remote"}
    assert (rests.found, rests.missed) == ([], 1)


def test_only_rests_of_one_process_are_compared() -> None:
    """Process 2 grows by 36 bytes an hour; the other processes hold more and less, and are not compared with it."""
    pids = [1, 2, 2, 2, 2, 3, 2, 2, 3]
    rests = [Rest(at_s=100.0 * at, pid=pid, resident_bytes=at + 1000 * (pid - 2)) for at, pid in enumerate(pids)]
    growth = ServerReport(rests=rests).growth
    assert growth is not None
    assert growth.per_hour == pytest.approx(36.0)
    assert growth.samples == 4
    assert ServerReport().growth is None
