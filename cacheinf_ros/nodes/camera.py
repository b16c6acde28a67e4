# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The subscription to a camera: it receives every frame that can arrive, and counts those that are lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.event_handler import (
    QoSMessageLostInfo,
    QoSRequestedIncompatibleQoSInfo,
    SubscriptionEventCallbacks,
    UnsupportedEventTypeError,
)
from rclpy.node import Node
from rclpy.qos import QoSPolicyKind, QoSReliabilityPolicy
from rclpy.subscription import Subscription

from cacheinf_ros.errors import MessageError
from cacheinf_ros.fast_dds import LOSS_REMEDY
from cacheinf_ros.nodes.image_messages import Arrival, CameraMessages
from cacheinf_ros.nodes.topics import frames_topic, full_name, overridden_reliability, profile, subscribe_to_images
from cacheinf_ros.pipeline import RARELY, THROTTLE, Health, Silence, StampGaps
from cacheinf_ros.pipeline.node_configs import ImageConfig, Reliability

_REVIEW_S = 1.0
_log = logging.getLogger(__name__)


class Camera:
    """Receives a camera's images as they come over the network, raw or compressed.

    With ``image_reliability: auto`` the subscription is reliable as long as all publishers are, and best effort as soon
    as one is not: a reliable subscription receives nothing from a best-effort publisher.
    """

    def __init__(
        self, node: Node, config: ImageConfig, health: Health, store: Callable[[Arrival], None], side: str = ""
    ) -> None:
        """Subscribe to the images.

        Args:
            node: the node that receives.
            config: topic, transport and reliability.
            health: counts received and lost frames.
            store: takes each frame; called in the executor's thread.
            side: which of a node's two cameras this is, where its parameters and notes say so: "right"; empty: they do
                not.
        """
        self._noted = f"{side}_" if side else ""
        self._parameter = f"{side}.image_topic" if side else "image_topic"
        self._node = node
        self._health = health
        self._store = store
        self._gaps = StampGaps()
        message_type, topic = frames_topic(config)
        self._messages = CameraMessages(message_type)
        self._message_type = message_type
        self._asked_topic = topic
        self._topic = full_name(node, topic)
        self._depth = max(2, config.queue_size)
        self._asked = overridden_reliability(node, self._topic, config.image_reliability)
        self._is_reliable = self._asked is not Reliability.BEST_EFFORT
        self._review_soon = node.create_guard_condition(self._review)
        self._silence = Silence(self._topic)
        self._told_silence = ""
        self._arrived_s: float | None = None
        self._subscription = self._subscribe()
        health.counted(f"{self._noted}image_publishers", lambda: self._subscription.get_publisher_count())
        # an event may come before the ROS graph shows its cause, and not every middleware has events
        self._timer = node.create_timer(_REVIEW_S, self._review, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def close(self) -> None:
        """Unsubscribe; must be called by the executor's thread."""
        self._health.counted(f"{self._noted}image_publishers", lambda: 0)
        self._node.destroy_timer(self._timer)
        self._node.destroy_guard_condition(self._review_soon)
        self._node.destroy_subscription(self._subscription)

    def _subscribe(self) -> Subscription[Any]:
        self._health.note(f"{self._noted}image_reliability", "reliable" if self._is_reliable else "best_effort")
        events = SubscriptionEventCallbacks(
            message_lost=self._count_lost,
            matched=lambda _: self._review_soon.trigger(),
            incompatible_qos=self._note_incompatible,
        )
        qos = profile(self._depth, reliable=self._is_reliable)
        subscribe = partial(subscribe_to_images, self._node, self._message_type, self._asked_topic, self._receive, qos)
        try:
            return subscribe(events)
        except UnsupportedEventTypeError as error:
            self._node.get_logger().warning(f"lost frames are seen by their stamps only: {error}")
            return subscribe(SubscriptionEventCallbacks(incompatible_qos=self._note_incompatible))

    def _note_incompatible(self, event: QoSRequestedIncompatibleQoSInfo) -> None:
        if event.last_policy_kind != QoSPolicyKind.RELIABILITY:
            policy = QoSPolicyKind(event.last_policy_kind).name.lower()
            self._node.get_logger().warning(
                f"nothing is received from a publisher of {self._topic} that offers another {policy} than asked for: "
                f"change qos_overrides.{self._topic}.subscription.{policy}"
            )
        self._review_soon.trigger()

    def _review(self) -> None:
        """Check again what the publishers offer.

        This does not happen in an event's callback, because that must not destroy its own subscription.
        """
        offers = [
            info.qos_profile.reliability is QoSReliabilityPolicy.RELIABLE
            for info in self._node.get_publishers_info_by_topic(self._topic)
        ]
        self._note_silence(is_published=bool(offers))
        if not offers:
            return
        if self._asked is Reliability.RELIABLE and not all(offers):
            _log.warning(
                "%s is published best effort, of which a reliable subscription receives nothing: set image_reliability "
                "to auto or best_effort",
                self._topic,
                extra=RARELY,
            )
        if self._asked is Reliability.AUTO and all(offers) != self._is_reliable:
            self._is_reliable = all(offers)
            self._node.destroy_subscription(self._subscription)
            self._subscription = self._subscribe()

    def _note_silence(self, *, is_published: bool) -> None:
        """Report that nothing arrives: all frames are lost, or no camera publishes as far as the ROS graph knows."""
        reason = self._silence.reason(time.monotonic(), self._arrived_s, is_published=is_published)
        self._health.silent(reason, self._topic)
        if reason and is_published:
            _log.warning("%s: if the camera works, %s", reason, LOSS_REMEDY, extra=RARELY)
        elif reason and reason != self._told_silence:  # said once: a camera may be switched off for hours
            self._node.get_logger().warning(f"{reason}: start the camera, or correct {self._parameter}")
        self._told_silence = reason

    def _receive(self, serialized: bytes) -> None:
        self._health.count("received")
        self._arrived_s = time.monotonic()
        try:
            arrival = Arrival(self._messages.read(serialized))
        except MessageError as error:
            self._health.count("unreadable")
            self._health.failed(str(error))
            self._gaps.reset()
            _log.error("%s", error, extra=THROTTLE)
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
            _log.warning("frames of %s are lost on their way: %s", self._topic, LOSS_REMEDY, extra=RARELY)
