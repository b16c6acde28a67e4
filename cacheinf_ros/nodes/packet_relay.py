# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A relay between robots and a server, which can damage the link: it forwards packets, or does not."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Any

from rclpy._rclpy_pybind11 import RCLError
from rclpy.qos import QoSProfile

from cacheinf_ros.errors import LinkError
from cacheinf_ros.msg import SplitPacket
from cacheinf_ros.nodes.packet_messages import packet_from, packet_message
from cacheinf_ros.nodes.spinning import SpinningNode
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.link_faults import Faults

SHARES, ANSWERS = "relayed_shares", "relayed_answers"
SERVER = {"server.share_topic": SHARES, "server.shared_topic": ANSWERS}
"""Parameters of the server at the relay's other end."""
_MANY = QoSProfile(depth=1000)
_SESSIONS = 64  # whose answers are forwarded; beyond that the one that was silent longest is dropped


class Relay:
    """Carries packets between robots, which use the usual topics, and a server with the parameters :data:`SERVER`.

    Attributes:
        faults: what happens to packets in both directions.
    """

    def __init__(self, domain: int) -> None:
        """Forward everything, in a thread of its own, until :meth:`close`."""
        self.faults = Faults(0, 0.0, ("lost",))
        self._failures: list[Exception] = []  # at most one: the failure that ended the thread
        self._spinning = SpinningNode("relay", domain, self._failures.append)
        self._node = self._spinning.node
        self._to_server = self._node.create_publisher(SplitPacket, SHARES, _MANY)
        self._to_robots: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
        self._node.create_subscription(SplitPacket, "frame_shares", self._from_robot, _MANY)

    def send(self, packet: Packet) -> None:
        """Send a packet of our own to the server."""
        with contextlib.suppress(RCLError):  # the packet is lost: the receiver does not keep up
            self._to_server.publish(packet_message(packet))

    def check(self) -> None:
        """Raise :class:`LinkError` where packets are no longer forwarded."""
        for failure in self._failures:
            raise LinkError(f"the relay between robots and server has ended: {failure!r}") from failure

    def close(self) -> None:
        """Stop forwarding."""
        self._spinning.close()

    def _from_robot(self, message: Any) -> None:
        packet = packet_from(message)
        self._meet(packet.session)
        for arrived in self.faults(packet, SHARES):
            self.send(arrived)

    def _meet(self, name: str) -> None:
        if name in self._to_robots:
            self._to_robots.move_to_end(name)
            return
        publisher = self._node.create_publisher(SplitPacket, f"frame_shared/{name}", _MANY)

        def hand_on(message: Any) -> None:
            for arrived in self.faults(packet_from(message), f"{ANSWERS}/{name}"):
                publisher.publish(packet_message(arrived))

        subscription = self._node.create_subscription(SplitPacket, f"{ANSWERS}/{name}", hand_on, _MANY)
        self._to_robots[name] = publisher, subscription
        if len(self._to_robots) > _SESSIONS:
            old, (publisher_of_old, subscription_of_old) = self._to_robots.popitem(last=False)
            self.faults.forget(f"{ANSWERS}/{old}")
            self._node.destroy_subscription(subscription_of_old)
            self._node.destroy_publisher(publisher_of_old)
