# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Publishers and subscriptions with the quality of service (QoS) that each topic needs, overridable by the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy._rclpy_pybind11 import RCLError
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSDurabilityPolicy, QoSHistoryPolicy, QoSPolicyKind, QoSProfile, QoSReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image, PointCloud2

from cacheinf_ros.errors import ConfigError, quoted
from cacheinf_ros.nodes.parameters import given_parameters
from cacheinf_ros.pipeline.node_configs import ImageConfig, ImageTransport, Reliability

MAP_DEPTH = 32
"""The depth of the cache map topic, larger than of images: maps are small, and a lost one is a gap in the chain."""

CACHE_MAPS = "cache_map"
"""The topic between matcher and inference."""

_COMPRESSED = ("/compressed", "/compressedDepth")
_DEPTH_AND_DURABILITY = (QoSPolicyKind.DEPTH, QoSPolicyKind.DURABILITY)  # latched: reach whom DDS discovers late
_OVERRIDABLE = (*_DEPTH_AND_DURABILITY, QoSPolicyKind.RELIABILITY)
_POLICIES = {QoSPolicyKind.RELIABILITY: QoSReliabilityPolicy, QoSPolicyKind.DURABILITY: QoSDurabilityPolicy}


def full_name(node: Node, topic: str) -> str:
    """Return a topic's name with its namespace, after remapping; raises :class:`ConfigError` where it is none."""
    try:
        return node.resolve_topic_name(topic)
    except RCLError as error:
        reason = str(error).partition(", at ")[0].rpartition(": ")[2]
        raise ConfigError(f"{quoted(topic)} cannot be the name of a topic: {reason}") from None


def camera_topic(node: Node, config: ImageConfig) -> str:
    """Return the full name of the topic of a node's camera; raises :class:`ConfigError` where it is none."""
    return full_name(node, frames_topic(config)[1])


def engine_state_topic(node: Node) -> str:
    """Return the topic on which inference tells the matcher its mode; it follows a remapping of the map topic."""
    return f"{full_name(node, CACHE_MAPS)}/engine"


def profile(depth: int, *, reliable: bool = True, latched: bool = False) -> QoSProfile:
    """Return a QoS profile that keeps the last ``depth`` messages; ``latched``: late subscribers receive them too."""
    return QoSProfile(
        history=QoSHistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=QoSReliabilityPolicy.RELIABLE if reliable else QoSReliabilityPolicy.BEST_EFFORT,
        durability=QoSDurabilityPolicy.TRANSIENT_LOCAL if latched else QoSDurabilityPolicy.VOLATILE,
    )


def publish_on(node: Node, message_type: type[Any], topic: str, qos: QoSProfile) -> Publisher[Any]:
    """Create a publisher whose QoS the parameters ``qos_overrides.TOPIC.publisher.*`` override."""
    options = _overridden(node, f"{full_name(node, topic)}.publisher", _OVERRIDABLE)
    return node.create_publisher(message_type, topic, qos, qos_overriding_options=options)


def publish_to_one(node: Node, message_type: type[Any], topic: str, qos: QoSProfile) -> Publisher[Any]:
    """Create a publisher for one robot; it declares no parameters, because its topic comes and goes.

    It has a callback group of its own, as rclpy's groups remember every entity that they have ever had.
    """
    return node.create_publisher(message_type, topic, qos, callback_group=MutuallyExclusiveCallbackGroup())


def subscribe_to(
    node: Node, message_type: type[Any], topic: str, callback: Callable[[Any], None], qos: QoSProfile
) -> Subscription[Any]:
    """Create a subscription whose QoS the parameters ``qos_overrides.TOPIC.subscription.*`` override."""
    options = _overridden(node, f"{full_name(node, topic)}.subscription", _OVERRIDABLE)
    return node.create_subscription(message_type, topic, callback, qos, qos_overriding_options=options)


def subscribe_to_one(
    node: Node, message_type: type[Any], topic: str, callback: Callable[[Any], None], qos: QoSProfile
) -> Subscription[Any]:
    """Create a subscription to a topic for one robot, as :func:`publish_to_one` does.

    In nodes that one thread spins no two callbacks run at once, whatever their groups.
    """
    return node.create_subscription(message_type, topic, callback, qos, callback_group=MutuallyExclusiveCallbackGroup())


def subscribe_to_images(
    node: Node,
    message_type: type[Any],
    topic: str,
    callback: Callable[[bytes], None],
    qos: QoSProfile,
    events: SubscriptionEventCallbacks,
) -> Subscription[Any]:
    """Create a subscription to serialized images, which may later be replaced by one with another reliability."""
    options = _overridden(node, f"{full_name(node, topic)}.subscription", _DEPTH_AND_DURABILITY)
    return node.create_subscription(
        message_type, topic, callback, qos, raw=True, event_callbacks=events, qos_overriding_options=options
    )


def overridden_reliability(node: Node, topic: str, asked: Reliability) -> Reliability:
    """Return what the standard parameter ``qos_overrides.TOPIC.subscription.reliability`` says, else ``asked``.

    Raises:
        ConfigError: the parameter is not a :class:`Reliability`.
    """
    name = f"qos_overrides.{topic}.subscription.reliability"
    if name not in given_parameters(node):
        return asked
    description = "reliability of the subscription to images: auto, reliable or best_effort"
    if not node.has_parameter(name):  # otherwise an earlier subscription has declared it
        node.declare_parameter(name, asked.value, ParameterDescriptor(description=description, read_only=True))
    value = node.get_parameter(name).value
    try:
        return Reliability(value)
    except ValueError:
        choices = ", ".join(choice.value for choice in Reliability)
        raise ConfigError(f"parameter {name}: {value!r} is none of {choices}") from None


def frames_topic(config: ImageConfig) -> tuple[type[Any], str]:
    """Return type and full name of the topic that a node's frames come from: images, or clouds of points."""
    if config.voxels:
        return PointCloud2, config.image_topic
    return image_topic(config.image_topic, config.image_transport)


def image_topic(topic: str, transport: ImageTransport) -> tuple[type[Any], str]:
    """Return type and full name of an image topic, by image_transport's conventions."""
    if transport is ImageTransport.RAW:
        return Image, topic
    return CompressedImage, topic if topic.endswith(_COMPRESSED) else f"{topic}{_COMPRESSED[0]}"


def _overridden(node: Node, end: str, kinds: Sequence[QoSPolicyKind]) -> QoSOverridingOptions:
    """Return the QoS policies that the user overrides; the others are not declared as parameters.

    Raises:
        ConfigError: a value is none of its policy's.
    """
    given = given_parameters(node)
    names = {kind: f"qos_overrides.{end}.{kind.name.lower()}" for kind in kinds}
    for kind, policies in _POLICIES.items():
        name = names.get(kind, "")
        choices = [key for key in policies.short_keys() if key != "unknown"]
        if name in given and str(given[name].value).lower() not in choices:
            raise ConfigError(f"parameter {name}: {given[name].value!r} is none of {', '.join(choices)}")
    return QoSOverridingOptions([kind for kind, name in names.items() if name in given])
