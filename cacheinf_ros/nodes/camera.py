# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The subscription to a camera: every frame that can arrive does, and what does not is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.event_handler import QoSMessageLostInfo, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSReliabilityPolicy
from rclpy.subscription import Subscription

from cacheinf_ros.errors import MessageError
from cacheinf_ros.fast_dds import LOSS_REMEDY
from cacheinf_ros.nodes.arrival import Arrival
from cacheinf_ros.nodes.camera_messages import CameraMessages
from cacheinf_ros.nodes.topics import image_topic, overridden_reliability, profile, subscribe_to_images
from cacheinf_ros.pipeline.health import Health
from cacheinf_ros.pipeline.node_configs import ImageConfig, Reliability
from cacheinf_ros.pipeline.stamp_gaps import StampGaps

_SAID_AGAIN_S = 60.0


class Camera:
    """Receives a camera's images as they come over the wire, raw or compressed.

    With ``image_reliability: auto`` the subscription is reliable as long as all publishers are, and best effort as soon
    as one is not: a reliable subscription hears nothing of a best-effort publisher.
    """

    def __init__(self, node: Node, config: ImageConfig, health: Health, store: Callable[[Arrival], None]) -> None:
        """Subscribe.

        Args:
            node: that receives.
            config: topic, transport and reliability.
            health: counts what is received and what is lost.
            store: takes each frame, in the executor's thread.
        """
        self._node = node
        self._health = health
        self._store = store
        self._gaps = StampGaps()
        message_type, topic = image_topic(config.image_topic, config.image_transport)
        self._messages = CameraMessages(message_type)
        self._message_type = message_type
        self._topic = node.resolve_topic_name(topic)
        self._depth = max(2, config.queue_size)
        self._asked = overridden_reliability(node, self._topic, config.image_reliability)
        self._is_reliable = self._asked is not Reliability.BEST_EFFORT
        self._review_soon = node.create_guard_condition(self._review)
        self._subscription = self._subscribe()

    def _subscribe(self) -> Subscription[Any]:
        self._health.note("image_reliability", "reliable" if self._is_reliable else "best_effort")
        events = SubscriptionEventCallbacks(
            message_lost=self._count_lost,
            matched=lambda _: self._review_soon.trigger(),
            incompatible_qos=lambda _: self._review_soon.trigger(),
        )
        qos = profile(self._depth, reliable=self._is_reliable)
        return subscribe_to_images(self._node, self._message_type, self._topic, self._receive, qos, events)

    def _review(self) -> None:
        """Look anew at what the publishers offer; not in an event's callback: that may not end its subscription."""
        offers = [
            info.qos_profile.reliability is QoSReliabilityPolicy.RELIABLE
            for info in self._node.get_publishers_info_by_topic(self._topic)
        ]
        if not offers:
            return
        if self._asked is Reliability.RELIABLE and not all(offers):
            self._node.get_logger().warning(
                f"{self._topic} is published best effort, of which a reliable subscription receives nothing: set "
                "image_reliability to auto or best_effort",
                throttle_duration_sec=_SAID_AGAIN_S,
            )
        if self._asked is Reliability.AUTO and all(offers) != self._is_reliable:
            self._is_reliable = all(offers)
            self._node.destroy_subscription(self._subscription)
            self._subscription = self._subscribe()

    def _receive(self, serialized: bytes) -> None:
        self._health.count("received")
        try:
            arrival = Arrival(self._messages.read(serialized))
        except MessageError as error:
            self._health.count("unreadable")
            self._node.get_logger().error(str(error), throttle_duration_sec=5.0)
            return
        self._note_missing(self._gaps.add(arrival.stamp_ns))
        self._store(arrival)

    def _count_lost(self, event: QoSMessageLostInfo) -> None:
        self._health.lost(event.total_count_change)
        self._tell_if_many()

    def _note_missing(self, frames: int) -> None:
        self._health.passed(frames)
        if frames:
            self._tell_if_many()

    def _tell_if_many(self) -> None:
        if self._health.loses_frames:
            self._node.get_logger().warning(
                f"frames of {self._topic} are lost on their way: {LOSS_REMEDY}", throttle_duration_sec=_SAID_AGAIN_S
            )
