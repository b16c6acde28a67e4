# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Robot and server share frames over topics while the server dies and comes back: every frame has a right result."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import has_ended

from cacheinf_ros.harness import NodeProcess
from cacheinf_ros.pipeline.polling import wait_until

START_S = 60.0
OTHER = str(Path(__file__).parents[1] / "networks" / "colours.yaml")


@pytest.fixture(autouse=True)
def _nothing_is_left(rig: Any) -> Iterator[None]:
    """Kill what a test that fails leaves running: a second server of that name would confuse the next one."""
    yield
    for process in rig.nodes.processes:
        if process.exit_code is None:
            process.kill()


@pytest.fixture
def start_robot(rig: Any) -> Callable[..., NodeProcess]:
    """Return a function that starts a node that shares frames by a policy, without waiting until it is ready."""

    def start(policy: str, schedule_s: float = 1.0) -> NodeProcess:
        server = {"server.use": True, "server.policy": policy, "server.schedule_s": schedule_s}
        waits = {"server.deadline_ms": 2000.0, "server.probe_s": 0.1}
        keeps = {"cache.budget_mb": 0.0 if policy == "remote" else -1.0}  # keep only maps that must be kept, or all
        return rig.nodes.start(rig.command("cached_inference", **server, **waits, **keeps))

    return start


def searches_of(server: NodeProcess) -> list[int]:
    """Wait until a server has searched for schedules, and return the ids of the processes that searched."""
    pattern = re.compile(r"searched for [\d.]+ s in process (\d+)")
    assert wait_until(lambda: bool(pattern.search(server.output)), START_S)
    return list(map(int, pattern.findall(server.output)))


@pytest.mark.parametrize("policy", ["remote", "cacheinf"])
def test_frames_are_shared_while_there_is_a_server(
    policy: str, rig: Any, start_robot: Callable[..., NodeProcess]
) -> None:
    robot = start_robot(policy, schedule_s=1000.0)  # no search ends by itself
    robot.wait_ready()
    stamps = iter(range(10**12, 10**13, 50_000_000))

    def film(count: int) -> list[Any]:
        results = [rig.station.answer(rig.image(next(stamps))) for _ in range(count)]
        assert not any(result.error for result in results)
        return results

    rig.station.wait_for_nodes(rig.image(0), subscribers=1)
    (alone,) = film(1)
    assert alone.where == "local"
    for ending in (signal.SIGTERM, signal.SIGKILL):
        server = rig.nodes.start(rig.command("server"))
        server.wait_ready()
        sessions = robot.output.count("a session has started")
        while robot.output.count("a session has started") == sessions:
            film(1)
        results = film(5)
        if policy == "remote":
            assert [result.where for result in results] == ["shared"] * 5
        for result in results:
            assert np.allclose(np.frombuffer(result.data, np.uint8), np.frombuffer(alone.data, np.uint8))
        searches = searches_of(server) if policy == "cacheinf" else []
        os.kill(server.pid, ending)
        assert server.wait(START_S) == (-ending if ending is signal.SIGKILL else 0)
        assert "Traceback" not in server.output
        assert [result.where for result in film(3)] == ["local"] * 3
        assert all(wait_until(partial(has_ended, pid), START_S) for pid in searches)
    assert robot.stop() == 0
    assert "Traceback" not in robot.output


def test_a_server_with_another_model_is_refused(rig: Any) -> None:
    robot = rig.nodes.start(rig.command("cached_inference", **{"server.use": True, "server.probe_s": 0.1}))
    robot.wait_ready()
    server = rig.nodes.start(rig.command("server", model=OTHER))
    server.wait_ready()
    rig.station.wait_for_nodes(rig.image(0), subscribers=1)
    deadline, stamps = time.monotonic() + START_S, iter(range(10**13, 2 * 10**13, 50_000_000))
    while "start both with the same model" not in robot.output:
        assert time.monotonic() < deadline
        assert rig.station.answer(rig.image(next(stamps))).where == "local"
    assert wait_until(lambda: rig.station.said("server").get("sharing robots") == "0", START_S)  # it keeps no place
    assert server.stop() == 0
    assert robot.stop() == 0


def test_the_policy_changes_while_the_robot_works(rig: Any, start_robot: Callable[..., NodeProcess]) -> None:
    robot = start_robot("remote", schedule_s=1.25)  # not stored by another test
    server = rig.nodes.start(rig.command("server"))
    robot.wait_ready()
    server.wait_ready()
    stamps = iter(range(2 * 10**13, 3 * 10**13, 50_000_000))

    def frame() -> Any:
        result = rig.station.answer(rig.image(next(stamps)))
        assert not result.error
        return result

    def frame_from(where: str) -> Any:
        """Publish until a frame is computed in this place: the robot may discover the server only after a while."""
        deadline = time.monotonic() + START_S
        while (result := frame()).where != where:
            assert time.monotonic() < deadline
        return result

    def change(policy: str) -> Any:
        (answer,), _ = rig.station.set_parameters("cached_inference", **{"server.policy": policy})
        return answer

    def said_transmit_us(after_s: float = 0.0) -> int:
        time.sleep(after_s)  # diagnostics come once a second
        return int(rig.station.said("cached_inference")["transmit_us"])

    def is_said(node: str, key: str, value: str) -> bool:
        return wait_until(lambda: rig.station.said(node).get(key) == value, START_S)

    rig.station.wait_for_nodes(rig.image(0), subscribers=1)
    right = np.frombuffer(frame_from("shared").data, np.float32)
    for policy, where in (("local", "local"), ("remote", "shared"), ("remote_jpeg", "server"), ("remote", "shared")):
        assert change(policy).successful
        result = frame_from(where)
        if policy != "remote_jpeg":
            assert np.allclose(np.frombuffer(result.data, np.float32), right, rtol=1e-5, atol=1e-5)
        if policy == "remote_jpeg":  # sending is counted here, too
            settled_us = said_transmit_us(after_s=2.0)
            frame()
            assert wait_until(lambda settled_us=settled_us: said_transmit_us() > settled_us, START_S)
        uses_server = policy != "local"  # otherwise other robots may have its place
        assert is_said("server", "sharing robots", str(int(uses_server)))
        assert is_said("cached_inference", "server", "up" if uses_server else "not used")
        assert [frame().where for _ in range(3)] == [where] * 3
    assert "schedules are solved" not in robot.output
    assert change("cacheinf").successful
    deadline = time.monotonic() + START_S
    while "schedules are solved by the server" not in robot.output:
        assert time.monotonic() < deadline
        frame()
    assert "server.policy" in change("everything").reason
    assert robot.stop() == 0
    assert server.stop() == 0
    assert "Traceback" not in robot.output + server.output


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_robot_that_goes_leaves_nothing_at_the_server(
    is_killed: bool, rig: Any, start_robot: Callable[..., NodeProcess]
) -> None:
    forget_after_s = 5.0 if is_killed else 600.0  # a robot that is not killed says that it ends
    server = rig.nodes.start(rig.command("server", **{"server.forget_after_s": forget_after_s}))
    robot = start_robot("remote")
    server.wait_ready()
    robot.wait_ready()

    rig.station.diagnostics.clear()  # what an earlier server said last
    assert wait_until(lambda: rig.station.said("server").get("sharing robots") == "1", START_S)
    if is_killed:
        robot.kill()
    else:
        assert robot.stop() == 0
    said = rig.station.said
    found = wait_until(lambda: said("server").get("sharing robots") == "0", START_S)
    assert found, f"{said('server')}\n{server.output}\n{robot.output}"  # a text, which pytest does not shorten
    assert ("not a word of it" in server.output) == is_killed
    assert server.stop() == 0


@pytest.mark.parametrize("started_with", ["local", "remote_jpeg"])
def test_what_was_started_without_sharing_shares_when_told_to(
    started_with: str, rig: Any, start_robot: Callable[..., NodeProcess]
) -> None:
    robot = start_robot(started_with)
    server = rig.nodes.start(rig.command("server"))
    robot.wait_ready()
    server.wait_ready()
    stamps = iter(range(4 * 10**13, 5 * 10**13, 50_000_000))
    rig.station.wait_for_nodes(rig.image(0), subscribers=1)
    for policy, where in (("", "server" if started_with == "remote_jpeg" else "local"), ("remote", "shared")):
        if policy:
            (answer,), _ = rig.station.set_parameters("cached_inference", **{"server.policy": policy})
            assert answer.successful
        deadline = time.monotonic() + START_S
        while True:
            result = rig.station.answer(rig.image(next(stamps)))
            assert not result.error
            if result.where == where:
                break
            assert time.monotonic() < deadline
    assert robot.stop() == 0
    assert server.stop() == 0
    assert "Traceback" not in robot.output + server.output
