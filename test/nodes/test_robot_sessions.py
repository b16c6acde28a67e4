# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Only a robot that still sends keeps its place at the server, and a model that cannot be compiled is not retried."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter

from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import MessageError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.msg import SplitPacket
from cacheinf_ros.nodes import robot_sessions
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.packet_messages import packet_from, packet_message
from cacheinf_ros.nodes.parameters import Parameters
from cacheinf_ros.nodes.robot_sessions import RobotSessions
from cacheinf_ros.nodes.topics import profile
from cacheinf_ros.nodes.whole_frame_models import WholeFrameModels
from cacheinf_ros.offload import NO_PLACE, Identity, Work
from cacheinf_ros.offload.protocol.greeting import PROTOCOL, Hello, written
from cacheinf_ros.offload.protocol.packets import Kind, Packet, cut
from cacheinf_ros.pipeline.health import Health
from cacheinf_ros.pipeline.node_configs import LimitConfig, OutputLimitConfig, ServerConfig, ServerTopicsConfig

DEADLINE_S = 30.0


class Models:
    """A server's models that knows none: each request fails in the given way."""

    def __init__(self, failure: Exception) -> None:
        self.asked: list[tuple[str, bool]] = []
        self._failure = failure

    def check(self, asked: Identity) -> None:
        if asked.network != "0" and isinstance(self._failure, MessageError):
            raise self._failure

    def find(self, asked: Identity, prepares: bool = True) -> Any:
        self.asked.append((asked.network, prepares))
        raise self._failure


class Server:
    """A node with the sessions of robots, and the replies that it sends them."""

    def __init__(self, context: Any, failure: Exception) -> None:
        one_place = [Parameter("server.max_robots", value=1)]
        node = rclpy.create_node("server", context=context, parameter_overrides=one_place)
        configs = (EngineConfig, MatchingConfig, OutputLimitConfig, ServerConfig, ServerTopicsConfig, LimitConfig)
        parameters, health, self.models = Parameters(node, *configs), Health(), Models(failure)
        self.node = node
        whole = WholeFrameModels(self.models, 0.0, parameters, health)  # type: ignore[arg-type]
        sender = Sender(node, parameters.get(LimitConfig))
        self.sessions = RobotSessions(node, self.models, whole, parameters, health, sender)  # type: ignore[arg-type]
        self.robots = rclpy.create_node("robots", context=context)
        self._sent = self.robots.create_publisher(SplitPacket, "frame_shares", profile(10))
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        self._executor.add_node(self.robots)
        self.until(lambda: self._sent.get_subscription_count() == 1)

    def until(self, holds: Callable[[], bool], *packets: Packet) -> None:
        """Send these packets until something holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline
            for packet in packets:
                self._sent.publish(packet_message(packet))
            self._executor.spin_once(0.02)

    def take(self, packet: Packet) -> None:
        """Let the sessions receive a packet now, and none later."""
        self.sessions._receive(packet_message(packet))

    @property
    def robots_served(self) -> list[str]:
        return list(self.sessions._robots)

    def refusal(self, greeting: Packet, *, of_place: bool = False) -> str:
        """Return what a robot that greets until it is refused is told.

        Args:
            greeting: the packet that greets.
            of_place: whether to wait for a refusal for want of a place, instead of any other.
        """
        told: list[str] = []

        def hear(message: SplitPacket) -> None:
            packet = packet_from(message)
            text = packet.data.decode()
            if packet.kind == Kind.REFUSED and (text == NO_PLACE) == of_place:
                told.append(text)

        subscription = self.robots.create_subscription(
            SplitPacket, f"frame_shared/{greeting.session}", hear, profile(10)
        )
        self.until(lambda: bool(told), greeting)
        self.robots.destroy_subscription(subscription)
        return told[0]


@pytest.fixture
def serving(domain: int) -> Iterator[Callable[[Exception], Server]]:
    context, servers = rclpy.Context(), []
    rclpy.init(context=context, domain_id=domain)

    def make(failure: Exception) -> Server:
        servers.append(Server(context, failure))
        return servers[-1]

    yield make
    for server in servers:
        server.sessions.close(patience_s=5.0)
    rclpy.try_shutdown(context=context)


def greeting(robot: str, network: str = "0", work: Work = Work.ROWS) -> Packet:
    hello = Hello(
        protocol=PROTOCOL, model="m", network=network, work=work, wire_type="float32", compress=False, patience_ms=1.0
    )
    (packet,) = cut(written(hello), session=robot, epoch=1, kind=Kind.HELLO)
    return packet


def test_a_model_that_breaks_the_compiler_is_compiled_once(serving: Callable[[Exception], Server]) -> None:
    server = serving(ValueError("a bug"))
    server.refusal(greeting("first"))
    for robot in ("first", "second"):
        assert "'m' cannot be compiled by the server: ValueError: a bug" in server.refusal(greeting(robot))
    assert server.models.asked == [("0", True)]
    server.refusal(greeting("third", network="1"))
    server.refusal(greeting("fourth", work=Work.FRAMES))
    assert {network for network, _ in server.models.asked} == {"0", "1"}, "another model"
    assert len(server.models.asked) == 3, "and other work with the first"


def test_a_model_that_could_not_be_compiled_is_tried_again_later(
    serving: Callable[[Exception], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robot_sessions, "_UNUSABLE_S", 0.0)
    server = serving(MemoryError("for now"))
    for robot in ("first", "second"):
        server.refusal(greeting(robot))
    assert len(server.models.asked) >= 2


def test_robots_that_come_and_go_leave_nothing_in_the_node(serving: Callable[[Exception], Server]) -> None:
    server = serving(MessageError("no such model"))
    server.take(greeting("first"))
    before = len(server.node.default_callback_group.entities)
    for i in range(20):
        server.take(greeting(f"robot_{i}"))
        server.until(lambda: not server.robots_served)
        server.sessions._every_second()
    assert len(server.node.default_callback_group.entities) == before
    assert len(list(server.node.publishers)) < 20


def test_a_robot_for_which_there_is_no_place_is_told_so(
    serving: Callable[[Exception], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, over = serving(MessageError("no such model")), threading.Event()
    monkeypatch.setattr(server.models, "find", lambda *_: over.wait(DEADLINE_S))  # the session keeps the only place
    server.take(greeting("first"))
    assert "server.max_robots" in server.refusal(greeting("second"), of_place=True)
    assert server.robots_served == ["first"]
    unknown = greeting("third", network="1", work=Work.FRAMES)
    assert server.refusal(unknown) == "no such model", "no place would help it"
    over.set()


def test_a_robot_whose_other_model_cannot_be_loaded_keeps_its_place(
    serving: Callable[[Exception], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serving(MessageError("no such model"))

    def opened(session: str, asked: Identity) -> Callable[[bytes], bytes]:
        if asked.network == "1":
            raise MemoryError
        return bytes

    monkeypatch.setattr(server.sessions._whole, "open", opened)
    ours = [replace(greeting("first", network, Work.FRAMES), epoch=epoch) for epoch, network in enumerate("010", 1)]

    sent: list[int] = []
    monkeypatch.setattr(server.sessions, "_to", lambda _: lambda packet: sent.append(packet.kind))
    server.take(ours[0])
    server.until(lambda: Kind.WELCOME in sent)
    server.take(ours[1])
    server.until(lambda: Kind.REFUSED in sent)
    for _ in range(20):
        server.take(greeting("second", work=Work.FRAMES))
        assert server.robots_served == ["first"]
        time.sleep(0.01)
    sent.clear()
    server.take(ours[2])
    server.until(lambda: Kind.WELCOME in sent)


def test_a_model_that_is_not_there_may_come(serving: Callable[[Exception], Server]) -> None:
    server = serving(MessageError("no such model"))
    for robot in ("first", "second"):
        assert server.refusal(greeting(robot)) == "no such model"
    assert len(server.models.asked) >= 2


def test_of_robots_that_are_refused_only_the_last_few_are_remembered(serving: Callable[[Exception], Server]) -> None:
    server = serving(MessageError("no such model"))
    for name in (f"robot{number}" for number in range(robot_sessions._MOST_REFUSED + 3)):
        asked = (name, True)
        server.until(lambda asked=asked: asked in server.models.asked, greeting(name, network=name))  # type: ignore[misc]
    assert len(server.robots_served) + len(server.sessions._refused) <= robot_sessions._MOST_REFUSED + 1


def test_only_sound_packets_keep_a_place(
    serving: Callable[[Exception], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robot_sessions, "ACTIVE_S", 0.3)
    server, over = serving(MessageError("no such model")), threading.Event()
    monkeypatch.setattr(server.models, "find", lambda *_: over.wait(DEADLINE_S))  # the sessions stay open
    first, second = greeting("first"), greeting("second")
    server.take(first)
    server.take(second)
    assert server.robots_served == ["first"], "who was just heard keeps its place"
    deadline = time.monotonic() + DEADLINE_S
    while server.robots_served != ["second"]:
        assert time.monotonic() < deadline
        server.take(replace(first, checksum=first.checksum ^ 1))
        server.take(second)
        time.sleep(0.02)
    over.set()


def test_who_comes_and_goes_while_a_model_is_compiled_leaves_few_threads(
    serving: Callable[[Exception], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, over = serving(MessageError("no such model")), threading.Event()

    def find(*_: object) -> None:
        over.wait(DEADLINE_S)
        raise MessageError("no such model")

    monkeypatch.setattr(server.models, "find", find)
    before = threading.active_count()
    for name in (f"guest{number}" for number in range(100)):
        server.take(greeting(name))
        (farewell,) = cut(b"", session=name, epoch=1, kind=Kind.BYE)
        server.take(farewell)
    assert threading.active_count() - before <= 1 + robot_sessions._MOST_ENDING
    over.set()
    assert server.refusal(greeting("robot")) == "no such model", "and when it is compiled there is room again"


def test_a_robot_that_another_place_would_not_help_is_not_told_of_places(
    serving: Callable[[Exception], Server],
) -> None:
    """It would change what serves it to the variant that it asks for, as on a full server."""
    server, over = serving(MessageError("no such model")), threading.Event()
    most = 1 + robot_sessions._MOST_ENDING
    ending = [threading.Thread(target=over.wait, args=(DEADLINE_S,)) for _ in range(most)]
    for thread in ending:
        thread.start()
    server.sessions._ending.extend(ending)
    assert server.refusal(greeting("robot")) == robot_sessions._ENDING
    over.set()


def test_a_machine_without_threads_turns_robots_away(
    serving: Callable[[Exception], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serving(MessageError("no such model"))

    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(robot_sessions.threading, "Thread", NoThread)
        server.take(greeting("robot"))
    assert not server.robots_served
    assert server.refusal(greeting("robot")) == "no such model"
