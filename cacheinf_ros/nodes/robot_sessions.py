# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's sessions with its robots: each has an engine, a thread, and a topic for the answers."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.publisher import Publisher

from cacheinf_ros.catalog.serving import SplitModels
from cacheinf_ros.engine import EngineConfig, PartitionWorker
from cacheinf_ros.errors import CacheinfError, LinkError, MessageError
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.fleet.relay import RelaySession
from cacheinf_ros.heap import give_memory_back
from cacheinf_ros.msg import SplitPacket
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.packet_messages import packet_from, packet_message
from cacheinf_ros.nodes.parameters import Parameters
from cacheinf_ros.nodes.topics import profile, publish_to_one, subscribe_to, subscribe_to_one
from cacheinf_ros.nodes.whole_frame_models import ACTIVE_S, WholeFrameModels
from cacheinf_ros.offload import (
    NO_PLACE,
    Identity,
    Packet,
    ServerLoad,
    ServerSession,
    WholeFrameWorker,
    Work,
    Worker,
    frames_at_once,
)
from cacheinf_ros.offload.protocol.greeting import read_hello
from cacheinf_ros.offload.protocol.packets import Kind, Send, cut
from cacheinf_ros.offload.row_workers import RowWorkers
from cacheinf_ros.offload.searching import ScheduleSearches
from cacheinf_ros.pipeline import Health
from cacheinf_ros.pipeline.node_configs import ServerConfig, ServerTopicsConfig

_DEPTH = 200  # packets in transit, of all robots together
_PERIOD_S = 1.0
_UNUSABLE_S = 60.0  # the time until compiling a model is tried again after a failure: memory may be free again
_MOST_ENDING = 8  # beyond the number of places: sessions that come and go during compilation each leave a thread
_ENDING = "the server is still ending the sessions of robots that have left: it has room again when they have ended"
_MOST_REFUSED = 8  # sessions whose topics are kept for a while, so that the refusal arrives


@dataclass(slots=True, kw_only=True, eq=False)
class _Robot:
    session: ServerSession | RelaySession
    thread: threading.Thread
    answers: Publisher[Any]
    heard: float

    def is_silent(self, patience_s: float) -> bool:
        """Tell whether nothing has been heard of the robot for ``patience_s`` seconds."""
        return time.monotonic() - self.heard > patience_s


class RobotSessions:
    """Takes packets of any robot; the one that was heard least recently makes room for a new one, if it is silent.

    A robot has one session for each model and each kind of work, and every one of them counts. Refused sessions do not.
    """

    def __init__(
        self,
        node: Node,
        models: SplitModels,
        whole: WholeFrameModels,
        parameters: Parameters,
        health: Health,
        sender: Sender,
        gateway: FleetGateway | None = None,
    ) -> None:
        """Prepare, and subscribe to the packets of robots.

        Args:
            node: the server's node.
            models: the models whose rows can be computed.
            whole: computes whole frames.
            parameters: the node's parameters.
            health: counts packets and sessions, and takes complaints.
            sender: sends the answers.
            gateway: the gateway to the fleet that computes rows; None: this process computes them.
        """
        self._gateway = gateway
        self._node = node
        self._sender = sender
        self._models = models
        self._whole = whole
        self._parameters = parameters
        self._health = health
        self._robots: OrderedDict[str, _Robot] = OrderedDict()
        self._refused: OrderedDict[str, Publisher[Any]] = OrderedDict()
        self._ending: list[threading.Thread] = []  # an engine is freed when its thread ends
        self._compiling = threading.Lock()  # one model at a time, because compiling takes memory
        at_once = frames_at_once(parameters.get(EngineConfig))
        self._load = ServerLoad(at_once, None if gateway is None else lambda: gateway.busy)
        self._searches = ScheduleSearches(parameters.get(ServerConfig).search_s)
        self._rows = RowWorkers(self._searches)
        self._unusable: dict[tuple[str, Work], tuple[str, float]] = {}  # existing models: why, and until when
        topic = parameters.get(ServerTopicsConfig).share_topic
        self._packets = subscribe_to(node, SplitPacket, topic, self._receive, profile(_DEPTH))
        if gateway is not None:
            own = f"{topic}/{gateway.name}"
            self._own_packets = subscribe_to_one(node, SplitPacket, own, self._receive, profile(_DEPTH))
        self._timer = node.create_timer(_PERIOD_S, self._every_second, clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def busy_s(self) -> float:
        """The longest time that a session has been working on its current frame, seconds."""
        return max((robot.session.busy_s for robot in list(self._robots.values())), default=0.0)

    def close(self, patience_s: float) -> None:
        """End all sessions, and the searches for schedules made for them; wait for their frames so many seconds."""
        robots, self._robots = list(self._robots.values()), OrderedDict()
        for robot in robots:
            robot.session.close()
        self._searches.close()
        deadline = time.monotonic() + patience_s
        for robot in robots:
            robot.thread.join(max(0.0, deadline - time.monotonic()))
        for answers in [*(robot.answers for robot in robots), *self._refused.values()]:
            self._node.destroy_publisher(answers)
        self._refused.clear()
        self._note()

    def _receive(self, message: SplitPacket) -> None:
        self._health.count("packets")
        packet = packet_from(message)
        self._give_up_refused()
        robot = self._robots.get(packet.session)
        if robot is not None and packet.ends_session:
            self._forget(packet.session)
            return
        if robot is None:
            if not packet.starts_session:
                return
            obstacle = self._obstacle()
            if obstacle:
                self._turn_away(packet, obstacle)
                return
            newcomer = self._welcome(packet)
            if newcomer is None:
                return
            robot = newcomer
        if packet.is_sound:  # otherwise anybody's noise would keep a place
            self._robots.move_to_end(packet.session)
            robot.heard = time.monotonic()
        robot.session.receive(packet)

    def _obstacle(self) -> str:
        """Return why there is no room for one more session, or nothing; a robot that was silent for long makes room."""
        most = self._parameters.get(ServerConfig).max_robots
        if sum(thread.is_alive() for thread in self._ending) >= most + _MOST_ENDING:
            return _ENDING  # not NO_PLACE: a robot that gave up another place for this one would still not get it
        if len(self._robots) < most:
            return ""
        name, oldest = next(iter(self._robots.items()))
        if not oldest.is_silent(ACTIVE_S):
            return NO_PLACE
        self._forget(name)
        self._node.get_logger().info(f"forgot {name}: too many robots")
        return ""

    def _turn_away(self, greeting: Packet, obstacle: str) -> None:
        """Tell a robot why there is no room, so that it greets less and less often.

        Where it would not be served anyway it is told that instead: else it might give up another place for this one.
        """
        name, reason = greeting.session, self._objection(greeting) or obstacle
        self._health.complained(f"a robot was turned away: {reason}")
        answers = self._refused[name] = self._refused.pop(name, None) or self._answers(name)
        for packet in cut(reason.encode(), session=name, epoch=greeting.epoch, kind=Kind.REFUSED):
            self._to(answers)(packet)

    def _objection(self, greeting: Packet) -> str:
        """Return why a robot would be refused whatever room there is, as far as is known at once; else nothing."""
        try:
            hello = read_hello(greeting.data)
            if self._gateway is None or hello.work is not Work.ROWS:
                self._models.check(Identity(model=hello.model, network=hello.network))
        except MessageError as error:
            return str(error)
        return ""

    def _answers(self, session: str) -> Publisher[Any]:
        topic = f"{self._parameters.get(ServerTopicsConfig).shared_topic}/{session}"
        return publish_to_one(self._node, SplitPacket, topic, profile(_DEPTH))

    def _give_up_refused(self) -> None:
        """Free the places of refused sessions; only the topics of the last few are kept."""
        for name in [name for name, robot in self._robots.items() if not robot.session.is_open]:
            robot = self._robots.pop(name)
            self._refused[name] = robot.answers
            self._ending.append(robot.thread)
            self._whole.forget(name)
            self._note()
        while len(self._refused) > _MOST_REFUSED:
            self._node.destroy_publisher(self._refused.popitem(last=False)[1])

    def _every_second(self) -> None:
        self._forget_silent()
        ended = [thread for thread in self._ending if not thread.is_alive()]
        if ended:
            self._ending = [thread for thread in self._ending if thread not in ended]
            give_memory_back()  # otherwise memory grows for an hour, as engines come and go
        self._health.note("load", f"{self._load.busy:.0%}")
        for name, robot in self._robots.items():
            for packet in self._load.packets(name):
                self._to(robot.answers)(packet)

    def _forget_silent(self) -> None:
        """Forget the robots that have been silent for too long.

        A running robot says something every second: these were killed, or their last packets were lost.
        """
        self._give_up_refused()
        patience_s = self._parameters.get(ServerConfig).forget_after_s
        for name in [name for name, robot in self._robots.items() if robot.is_silent(patience_s)]:
            self._forget(name)
            self._node.get_logger().info(f"forgot {name}: not a word of it for {patience_s:g} s")

    def _forget(self, name: str) -> None:
        """Forget a session; its thread ends by itself, and the engine goes with it."""
        robot = self._robots.pop(name)
        robot.session.close()
        self._whole.forget(name)
        self._ending.append(robot.thread)
        self._node.destroy_publisher(robot.answers)
        self._note()

    def _note(self) -> None:
        self._health.note("sharing robots", str(len(self._robots)))

    def _welcome(self, greeting: Packet) -> _Robot | None:
        """Begin a session; returns None where no thread can be started for it."""
        name = greeting.session
        answers = self._refused.pop(name, None) or self._answers(name)
        session = self._session(greeting, self._load.watched(self._to(answers)))
        thread = threading.Thread(target=session.serve, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._refused[name] = answers
            self._health.complained(f"{name} was turned away: {error}")
            return None
        robot = self._robots[name] = _Robot(session=session, thread=thread, answers=answers, heard=time.monotonic())
        self._health.count("sessions")
        self._note()
        return robot

    def _session(self, greeting: Packet, send: Send) -> ServerSession | RelaySession:
        """Return a session of the fleet where there is one and rows are asked for, else one of this process."""
        if self._gateway is not None and _asks_for_rows(greeting):
            return self._gateway.session(greeting.session, send, self._health.complained)
        session = ServerSession(
            greeting.session, lambda asked, work: self._worker(session, asked, work), send, self._health.complained
        )
        return session

    def _worker(self, session: ServerSession, asked: Identity, work: Work) -> Worker:
        key = asked.network, work
        with self._compiling:
            self._check_open(session)
            reason, until_s = self._unusable.get(key, ("", 0.0))
            if time.monotonic() < until_s:
                raise LinkError(reason)
            try:
                return self._compiled(session, asked, work)
            except CacheinfError:
                raise
            except Exception as error:
                reason = f"{asked.model!r} cannot be compiled by the server: {type(error).__name__}: {error}"
                self._unusable[key] = reason, time.monotonic() + _UNUSABLE_S
                raise

    def _compiled(self, session: ServerSession, asked: Identity, work: Work) -> Worker:
        if work is Work.FRAMES:
            compute = self._whole.open(session.name, asked)
            if not session.is_open:  # the session was forgotten before its model was loaded
                self._whole.forget(session.name)
            self._check_open(session)
            return WholeFrameWorker(self._load.timed(compute))
        partition = PartitionWorker(self._models.find(asked), self._parameters.get(EngineConfig), asked.dropped)
        return self._rows.worker(asked, partition)

    def _check_open(self, session: ServerSession) -> None:
        if not session.is_open:
            raise LinkError(f"{session.name} was forgotten before its turn to be compiled for came")

    def _to(self, answers: Publisher[Any]) -> Send:
        return lambda packet: self._sender.publish(answers, packet_message(packet), packet.bytes_on_wire)


def _asks_for_rows(greeting: Packet) -> bool:
    try:
        return read_hello(greeting.data).work is Work.ROWS
    except MessageError:
        return False  # the session that serves it will report the error
