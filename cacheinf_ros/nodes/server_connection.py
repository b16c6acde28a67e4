# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's connection to servers: the topics on which all sessions of one node send and receive."""

from __future__ import annotations

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription

from cacheinf_ros.msg import SplitPacket
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.packet_messages import packet_from, packet_message
from cacheinf_ros.nodes.topics import profile, publish_on, publish_to_one, subscribe_to_one
from cacheinf_ros.offload import HeardLoad, Packet, RobotSession
from cacheinf_ros.pipeline import Health
from cacheinf_ros.pipeline.node_configs import ServerTopicsConfig

_DEPTH = 200  # packets in transit: all rows of a frame
_LAST_WORDS = Duration(seconds=1.0)
_TICK_S = 0.1
_MOST_LINES, _LINES_S = 20, 60.0  # lines of the log that one server's state may take in so many seconds
NOT_USED = "not used"
"""The text in diagnostics for a server that the policy does not use."""
S = TypeVar("S", bound=RobotSession)


class ServerReport:
    """Reports how a session with the server is doing: always in diagnostics, and in the log what is new.

    What is wrong is logged once until all is well again. Sessions of which one replaces the other may have one report.
    """

    def __init__(self, node: Node, health: Health, *, started: str, until: str, prefix: str) -> None:
        """Prepare.

        Args:
            node: the node that has the session.
            health: takes notes for diagnostics.
            started: what the log says once all is well.
            until: what ends the time in which frames are computed here.
            prefix: the prefix of all texts, where the node has several sessions.
        """
        self._logger = node.get_logger()
        self._health = health
        self._started, self._until, self._prefix = started, until, prefix
        self._said: tuple[str, ...] = ("",)  # what was logged since all was last well, or that it is
        self._lines: deque[float] = deque(maxlen=_MOST_LINES)  # when they were logged

    def rest(self) -> None:
        """Report that the server is not used at present."""
        self._health.note(f"{self._prefix}server", NOT_USED)
        self._said = ()  # so that the log tells when it is used again

    def say(self, complaint: str) -> None:
        """Report why the server is not waited for; an empty complaint means that it is."""
        self._health.note(f"{self._prefix}server", complaint or "up")
        if complaint in self._said:
            return
        now = time.monotonic()
        if len(self._lines) == _MOST_LINES and now - self._lines[0] < _LINES_S:
            return  # not now: whoever answers in a server's name could fill the disk
        self._said = (*self._said, complaint)[-_MOST_LINES:] if complaint and "" not in self._said else (complaint,)
        self._lines.append(now)
        if complaint:
            self._logger.warning(f"{self._prefix}server: {complaint}; frames are computed here until {self._until}")
        else:
            self._logger.info(f"{self._prefix}server: {self._started}")


class ServerConnection:
    """Sends and receives for all sessions of a node.

    There is one publisher for all sessions, so that the last packets of a session that ends are sent, and a
    subscription for each session.

    Attributes:
        solving: held by the session that searches for schedules, since only one may search at a time.
    """

    def __init__(self, node: Node, topics: ServerTopicsConfig, sender: Sender) -> None:
        self.solving = threading.Lock()
        self._node = node
        self._sender = sender
        self._share_topic, self._shared_topic = topics.share_topic, topics.shared_topic
        self._packets = publish_on(node, SplitPacket, topics.share_topic, profile(_DEPTH))
        self._answers: dict[str, Subscription[SplitPacket]] = {}  # by session
        self._ends: dict[str, Callable[[], None]] = {}
        self._own: dict[str, tuple[str, Publisher[Any]]] = {}  # by session: its gateway, and the publisher to it
        self._load, self._load_lock = HeardLoad(), threading.Lock()

    @property
    def has_server(self) -> bool:
        """Whether anybody receives what is sent."""
        return self._packets.get_subscription_count() > 0

    @property
    def server_load(self) -> float:
        """How busy the servers say that they are, from 0 to 1; 0 where they say nothing."""
        with self._load_lock:
            return self._load.busy(time.monotonic())

    def send(self, packet: Packet) -> None:
        """Send a packet without waiting: to the session's own gateway once that is reached, else to all servers.

        The last packets of a session go to all servers, by the publisher that stays: the session's own is destroyed
        with it.
        """
        publisher, own = self._packets, self._own.get(packet.session)
        with suppress(InvalidHandle):  # the executor's thread has just destroyed the publisher
            if own is not None and not packet.ends_session and own[1].get_subscription_count():
                publisher = own[1]
        self._sender.publish(publisher, packet_message(packet), packet.bytes_on_wire)

    def belongs_to(self, session: str, gateway: str) -> None:
        """Set the gateway that a session belongs to.

        Where it is empty, the session has none and greets all servers. Must be called by the executor's thread.
        """
        name, publisher = self._own.get(session, ("", None))
        if name == gateway:
            return
        if publisher is not None:
            del self._own[session]
            self._node.destroy_publisher(publisher)
        if gateway:
            topic = f"{self._share_topic}/{gateway}"
            self._own[session] = gateway, publish_to_one(self._node, SplitPacket, topic, profile(_DEPTH))

    def close(self) -> None:
        """End all sessions, and wait a moment until servers know; must be called by the executor's thread."""
        for end in list(self._ends.values()):
            end()
        self._packets.wait_for_all_acked(_LAST_WORDS)  # lost packets are resent only while the publisher exists
        self._sender.close()

    def join(self, session: str, receive: Callable[[Packet], None], end: Callable[[], None]) -> None:
        """Receive what servers send to a session.

        Args:
            session: the session's name.
            receive: takes each packet for it.
            end: ends the session, and calls :meth:`leave`.
        """

        def hear(message: SplitPacket) -> None:
            packet = packet_from(message)
            with self._load_lock:
                is_load = packet.session == session and self._load.hear(packet, time.monotonic())
            if not is_load:
                receive(packet)

        self._ends[session] = end
        topic = f"{self._shared_topic}/{session}"
        self._answers[session] = subscribe_to_one(self._node, SplitPacket, topic, hear, profile(_DEPTH))

    def leave(self, session: str) -> None:
        """Stop receiving for a session; must be called by the executor's thread, or after it has ended."""
        del self._ends[session]
        self.belongs_to(session, "")
        self._node.destroy_subscription(self._answers.pop(session))


class LinkedSession(ABC, Generic[S]):
    """A series of sessions of a node with servers: while none is wanted, other robots may take its place there.

    Everything ends after :meth:`close`, or with :meth:`ServerConnection.close`.

    Attributes:
        session: the session that is used at present.
        tells: whether diagnostics and log tell how the session is doing; False where they tell of another one.
    """

    def __init__(
        self,
        node: Node,
        connection: ServerConnection,
        report: ServerReport,
        probe_s: float,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Prepare, and begin the first session.

        Args:
            node: the node that has the sessions.
            connection: sends and receives packets.
            report: reports how the session is doing.
            probe_s: the longest time between two greetings, seconds.
            is_wanted: returns whether there is any use for the session at present.
        """
        self._node = node
        self._connection = connection
        self._report = report
        self._is_wanted = is_wanted
        self._is_closing = self._is_begun = False
        self.tells = True
        self.session = self._join(None)
        if not is_wanted():
            report.rest()
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(min(_TICK_S, probe_s), self._tick, clock=steady)

    def close(self) -> None:
        """End soon, in the executor's thread, which must not use what another thread has destroyed.

        Nothing is told of the session from now on: its name in diagnostics may have been erased when it ends.
        """
        tells, self.tells = self.tells, False
        self._is_closing = True
        if tells:
            self._report.rest()

    def _tell(self, complaint: str) -> None:
        if self.tells:
            self._report.say(complaint)

    def _tick(self) -> None:
        if self._is_closing:
            self._end()
            return
        if self._is_wanted():
            self._is_begun = True
            self._greet()
        elif self._is_begun:
            self._is_begun = False
            self._leave()
            # under another name, so that packets still in transit cannot begin or end it
            self.session = self._join(self.session)
            self._report.rest()

    @abstractmethod
    def _make_session(self, name: str, before: S | None) -> S:
        """Make the session that is used from now on; ``before``: the one that has been closed for it, if any."""

    @abstractmethod
    def _greet(self) -> None:
        """Greet the server where there is no session, even while no frames come."""

    def _end(self) -> None:
        """End, and tell the server; must be called by the executor's thread, or after it has ended."""
        self._leave()
        self._node.destroy_timer(self._timer)
        if self.tells:
            self._report.rest()

    def _join(self, before: S | None) -> S:
        session = self._make_session(f"robot_{secrets.token_hex(4)}", before)
        self._connection.join(session.name, session.receive, self._end)
        return session

    def _leave(self) -> None:
        self.session.close()
        self._connection.leave(self.session.name)
