# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames are scheduled for the server that answers, and anew where another machine answers in its place."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from catalogs import TINY
from sessions import ENGINE

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.engine import Engine
from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.graph import load_model
from cacheinf_ros.nodes.row_sharing import RowSharing
from cacheinf_ros.offload import Identity, OffloadConfig
from cacheinf_ros.offload.planning import Choice
from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.pipeline import Health
from cacheinf_ros.pipeline.node_configs import SharingConfig

SLOWDOWN = 1.25
SHARING = SharingConfig(offload_policy=OffloadPolicy.REMOTE)  # divides frames, and searches for no schedules by itself


class Robot:
    """A robot's part in sharing, and the server that answers it."""

    def __init__(self) -> None:
        model = load_model(TINY)
        engine = Engine(model, ENGINE, with_server=True)
        assert engine.shared is not None
        self._operators = len(engine.shared.space.heights)
        self.made: list[tuple[Any, float]] = []  # what schedulers were made for: machines, and the robot's slowdown
        logger = SimpleNamespace(warning=lambda text: None, info=lambda text: None, debug=lambda text: None)
        node: Any = SimpleNamespace(get_logger=lambda: logger, create_timer=lambda *_, **__: None)
        connection: Any = SimpleNamespace(
            solving=threading.Lock(), send=lambda packet: None, join=lambda *_: None, belongs_to=lambda *_: None
        )
        self.sharing = RowSharing(
            node, connection, lambda: SHARING, OffloadConfig(), Identity.of(model), engine, Health(), slowdown=SLOWDOWN,
            make_scheduler=self._make,
        )  # fmt: skip

    def meet(self, frame_ms: float) -> None:
        """Have a server greet that takes so long for a frame, whose operators all take the same time."""
        whole = frame_ms / self._operators
        profile = [[whole * share for share in POINTS] for _ in range(self._operators)]
        welcome = SimpleNamespace(server="", profile=profile)
        self.sharing.session = SimpleNamespace(  # type: ignore[assignment]
            name="robot", welcome=welcome, complaint="", poll=lambda request: None
        )
        self.sharing._greet()

    def _make(self, workload: Any, machines: Any, *, robot_slowdown: float) -> Any:
        self.made.append((machines, robot_slowdown))
        return SimpleNamespace(measured=machines)


@pytest.fixture
def robot() -> Robot:
    return Robot()


def takes_ms(machines: Any) -> float:
    return float(machines.server_ms[:, -1].sum())


def test_the_first_server_is_scheduled_for(robot: Robot) -> None:
    assert robot.sharing.partner() is None
    robot.meet(12.0)
    ((machines, slowdown),) = robot.made
    assert takes_ms(machines) == pytest.approx(12.0) and slowdown == SLOWDOWN
    assert machines.robot_ms.shape == machines.server_ms.shape


@pytest.mark.parametrize("factor", [1.0, 1.4, 1 / 1.4])
def test_a_server_that_resembles_the_last_one_changes_nothing(robot: Robot, factor: float) -> None:
    searching = searches(robot, 12.0)
    robot.meet(12.0 * factor)
    assert len(robot.made) == 1
    assert robot.sharing._finder is searching and not searching.closed


@pytest.mark.parametrize("factor", [1.6, 1 / 1.6])
def test_another_machine_is_scheduled_for_anew(robot: Robot, factor: float) -> None:
    """Schedules that are searched for the former one are worth nothing any more."""
    searching = searches(robot, 12.0)
    robot.meet(12.0 * factor)
    assert [takes_ms(machines) for machines, _ in robot.made] == pytest.approx([12.0, 12.0 * factor])
    assert searching.closed and robot.sharing._finder is None
    robot.meet(12.0 * factor * 1.1)
    assert len(robot.made) == 2, "it is compared with the newest"


def searches(robot: Robot, frame_ms: float) -> Any:
    """Meet a server, and search for schedules of it."""
    robot.meet(frame_ms)
    closed: list[bool] = []
    finder: Any = SimpleNamespace(closed=closed, close=lambda: closed.append(True), request=None)
    robot.sharing._finder = finder
    return finder


def test_how_much_slower_a_frame_may_be_reaches_the_scheduler(robot: Robot) -> None:
    asked: list[float] = []

    def choose(*_: Any, slower: float, **__: Any) -> Choice:
        asked.append(slower)
        return Choice(partition=None, predicted_ms=1.0, local_share=1.0)

    link = SimpleNamespace(mbit_s=1.0, delay_ms=1.0)
    sharing: Any = robot.sharing
    sharing._asked, sharing._partner = SimpleNamespace(choose=choose), SimpleNamespace(epoch=1, is_awaited=True)
    sharing.session = SimpleNamespace(up=link, served=None)
    for slower in (0.0, 0.25):
        sharing._sharing = lambda slower=slower: SharingConfig(slower_for_energy=slower)
        assert sharing._choose(None) is None
    assert asked == [0.0, 0.25]


@pytest.mark.parametrize(("is_known", "receive_ms"), [(False, 3.0), (True, 1.0)])
def test_until_much_has_come_back_what_comes_is_taken_to_be_as_fast_as_what_goes(
    robot: Robot, is_known: bool, receive_ms: float
) -> None:
    robot.meet(12.0)
    sharing: Any = robot.sharing
    sharing.session.up = SimpleNamespace(bytes_per_ms=100.0, mbit_s=0.8, delay_ms=1.0)
    sharing.session.down = SimpleNamespace(bytes_per_ms=300.0, is_known=is_known)
    sharing._asked = SimpleNamespace(unsettle=lambda: None, state="")
    sharing._partner = SimpleNamespace(waited_ms=5.0, bytes_sent=1000, bytes_received=300, frame=1)
    sharing._choice = Choice(partition=None, predicted_ms=1.0, local_share=1.0)
    spent = sharing.computed(was_shared=True, took_ms=20.0)
    assert (spent.compute_ms, spent.transmit_ms, spent.receive_ms) == (15.0, 10.0, receive_ms)


def test_profiles_are_those_of_all_operators(robot: Robot) -> None:
    robot.meet(12.0)
    machines, _ = robot.made[0]
    assert machines.server_ms.shape == (robot._operators, len(POINTS))
    assert np.all(np.diff(machines.server_ms, axis=1) >= 0)
