"""What the sessions of one node, which shares frames with servers, have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rclpy.node import Node
from rclpy.subscription import Subscription

from cacheinf_ros.msg import SplitPacket
from cacheinf_ros.nodes.configs import ServerTopicsConfig
from cacheinf_ros.nodes.conversions import packet_from, packet_message
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.topics import profile, publish_on, subscribe_to_one
from cacheinf_ros.offload import Packet

_DEPTH = 200  # packets on their way: a whole frame's rows


class SplitCommon:
    """One publisher for all sessions, so that the last words of one that ends are sent; a subscription for each.

    Attributes:
        solving: held by the session that searches for schedules: one at a time.
    """

    def __init__(self, node: Node, topics: ServerTopicsConfig, sender: Sender) -> None:
        self.solving = threading.Lock()
        self._node = node
        self._sender = sender
        self._shared_topic = topics.shared_topic
        self._packets = publish_on(node, SplitPacket, topics.share_topic, profile(_DEPTH))

    def send(self, packet: Packet) -> None:
        """Send without waiting."""
        self._sender.publish(self._packets, packet_message(packet), packet.bytes_on_wire)

    def hear(self, session: str, receive: Callable[[Packet], None]) -> Subscription[SplitPacket]:
        """Have what servers send to a session received, until the subscription is destroyed."""
        topic = f"{self._shared_topic}/{session}"
        return subscribe_to_one(
            self._node, SplitPacket, topic, lambda message: receive(packet_from(message)), profile(_DEPTH)
        )
