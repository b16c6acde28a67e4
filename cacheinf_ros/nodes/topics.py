"""Publishers and subscriptions with the qualities of service that the topics need, overridable by the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSDurabilityPolicy, QoSHistoryPolicy, QoSPolicyKind, QoSProfile, QoSReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image

from cacheinf_ros.nodes.configs import ImageConfig, ImageTransport, Reliability

MAP_DEPTH = 32
"""Cache maps are small, and a lost one is a gap in the chain: keep more of them than of images."""

_OVERRIDABLE = QoSOverridingOptions(
    policy_kinds=(
        QoSPolicyKind.HISTORY,
        QoSPolicyKind.DEPTH,
        QoSPolicyKind.RELIABILITY,
        QoSPolicyKind.DURABILITY,  # latched recordings reach whom DDS introduces late
    )
)


def profile(depth: int, *, reliable: bool = True, latched: bool = False) -> QoSProfile:
    """The last ``depth`` messages; ``latched``: also for those who come late."""
    return QoSProfile(
        history=QoSHistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=QoSReliabilityPolicy.RELIABLE if reliable else QoSReliabilityPolicy.BEST_EFFORT,
        durability=QoSDurabilityPolicy.TRANSIENT_LOCAL if latched else QoSDurabilityPolicy.VOLATILE,
    )


def publish_on(node: Node, message_type: type[Any], topic: str, qos: QoSProfile) -> Publisher[Any]:
    """A publisher whose QoS the parameters ``qos_overrides.TOPIC.publisher.*`` override."""
    return node.create_publisher(message_type, topic, qos, qos_overriding_options=_OVERRIDABLE)


def publish_to_one(node: Node, message_type: type[Any], topic: str, qos: QoSProfile) -> Publisher[Any]:
    """A publisher for one robot: topics that come and go declare no parameters."""
    return node.create_publisher(message_type, topic, qos)


def subscribe_to(
    node: Node, message_type: type[Any], topic: str, callback: Callable[[Any], None], qos: QoSProfile
) -> Subscription[Any]:
    """A subscription whose QoS the parameters ``qos_overrides.TOPIC.subscription.*`` override."""
    return node.create_subscription(message_type, topic, callback, qos, qos_overriding_options=_OVERRIDABLE)


def subscribe_to_one(
    node: Node, message_type: type[Any], topic: str, callback: Callable[[Any], None], qos: QoSProfile
) -> Subscription[Any]:
    """A subscription to what is meant for one robot: topics that come and go declare no parameters."""
    return node.create_subscription(message_type, topic, callback, qos)


def subscribe_to_images(node: Node, config: ImageConfig, callback: Callable[[Any], None]) -> Subscription[Any]:
    """The camera's images, raw or compressed."""
    message_type, topic = image_topic(config.image_topic, config.image_transport)
    qos = profile(max(2, config.queue_size), reliable=config.image_reliability is Reliability.RELIABLE)
    return subscribe_to(node, message_type, topic, callback, qos)


def image_topic(topic: str, transport: ImageTransport) -> tuple[type[Any], str]:
    """Type and full name of an image topic, after image_transport's conventions."""
    if transport is ImageTransport.RAW:
        return Image, topic
    return CompressedImage, topic if topic.endswith("/compressed") else f"{topic}/compressed"
