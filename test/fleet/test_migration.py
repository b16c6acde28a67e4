# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sessions move between processes: planned moves lose no frame, a lost machine at most one of each robot."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fleets import MODEL, OneProcess, Rig
from sessions import until

from cacheinf_ros.fleet import relay
from cacheinf_ros.graph import load_model
from cacheinf_ros.offload import Identity, OffloadConfig, Packet, RowSession
from cacheinf_ros.offload.protocol.packets import Kind


@pytest.fixture
def cluster() -> OneProcess:
    return OneProcess(machines=2)


@pytest.fixture
def rig(cluster: OneProcess) -> Iterator[Rig]:
    made = Rig(cluster, robots=2)
    try:
        made.connect()
        yield made
    finally:
        made.gateway.close()


def test_planned_moves_lose_no_frame(cluster: OneProcess, rig: Rig) -> None:
    rig.film(2)
    before = {robot.name: cluster.machine_of(robot.name) for robot in rig.robots}
    drained = before["robot0"]
    cluster.drain(drained)

    def has_moved() -> bool:
        rig.film(1)
        return all(cluster.machine_of(robot.name) not in ("", drained) for robot in rig.robots)

    until(has_moved)
    rig.film(3)
    assert all(all(robot.shared) for robot in rig.robots), [robot.shared for robot in rig.robots]
    assert cluster.shown["moves"] >= 1
    assert not any(where == drained for where, _ in cluster.hosts.values()), "nothing runs there any more"


def test_a_lost_machine_costs_at_most_one_frame_of_each_robot(cluster: OneProcess, rig: Rig) -> None:
    rig.film(2)
    until(lambda: all(machine.ready for machine in cluster.status().machines), lambda: rig.film(1))
    cluster.kill(cluster.machine_of("robot0"))
    rig.film(5)
    for robot in rig.robots:
        assert robot.shared.count(False) <= 1, robot.shared
        assert all(robot.shared[-3:]), "they are shared again"
    assert cluster.shown["losses"] >= 1


def test_robots_come_back_by_themselves_after_a_restart_of_everything(rig: Rig) -> None:
    rig.film(1)
    rig.restart(OneProcess(machines=1))

    def is_shared_again() -> bool:
        rig.film(1)
        return all(robot.shared[-1] for robot in rig.robots)

    assert not any(robot.shared[-1] for robot in rig.robots)
    until(is_shared_again)


def test_a_session_that_its_robot_has_left_ends_without_a_word(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_SILENT_S", 5.0)  # longer than a frame takes on a busy machine
    heard: list[Packet] = []
    session = rig.gateway.session("leaving", heard.append, lambda complaint: None)
    threading.Thread(target=session.serve, daemon=True).start()
    space = rig.robots[0].engine.shared
    assert space is not None
    RowSession(
        "leaving", Identity.of(load_model(MODEL)), space.space, OffloadConfig(), session.receive
    ).poll()  # the robot greets once
    until(lambda: not session.is_open, lambda: rig.film(1))
    assert {packet.kind for packet in heard} <= {Kind.WELCOME}
    assert all(all(robot.shared) for robot in rig.robots), "robots that speak keep their sessions"
