# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plays the surroundings of many robots: publishes camera images, receives results, and talks to their server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from cacheinf_ros.msg import InferenceResult, SplitPacket
from cacheinf_ros.nodes.conversions import byte_array, stamp_ns, time_message
from cacheinf_ros.nodes.packet_messages import packet_from, packet_message
from cacheinf_ros.nodes.results import outputs_from
from cacheinf_ros.nodes.spinning import ListeningNode, surviving
from cacheinf_ros.offload import Packet

_MANY = QoSProfile(depth=1000)
_LIE = 2**20  # the height and width in pixels that a damaged header claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A result as it arrived.

    Attributes:
        stamp_ns: the stamp of the image.
        at_s: when it arrived, by :func:`time.monotonic`.
        outputs: the outputs, by name.
    """

    stamp_ns: int
    at_s: float
    where: str
    error: str
    outputs: dict[str, NDArray[Any]]


class RobotStation(ListeningNode):
    """A node in a thread of its own; use it as a context manager."""

    def __init__(self, domain: int) -> None:
        super().__init__("station", domain)
        self._cameras: dict[str, Any] = {}
        self._to_server: dict[str, Any] = {}
        self._from_server: dict[str, Any] = {}
        self._tuners: dict[str, Any] = {}

    def add_robot(self, image_topic: str, result_topic: str, hear: Callable[[Heard], None]) -> None:
        """Publish one robot's images and receive its results; ``hear`` is called in the station's thread."""
        self._cameras[image_topic] = self.node.create_publisher(Image, image_topic, _MANY)

        def received(message: Any) -> None:
            outputs = outputs_from(message)
            hear(
                Heard(
                    stamp_ns=stamp_ns(message.header), at_s=time.monotonic(), where=message.where, error=message.error,
                    outputs=outputs,
                )
            )  # fmt: skip

        self.node.create_subscription(InferenceResult, result_topic, surviving("a result", received), _MANY)

    def ends(self, node: str, image_topic: str, result_topic: str) -> tuple[set[bytes], set[bytes]]:
        """Return the endpoint identities of a node by its name, as far as the ROS graph knows.

        Returns:
            those that receive the images, and those that publish the results.
        """
        readers = self.node.get_subscriptions_info_by_topic(image_topic)
        writers = self.node.get_publishers_info_by_topic(result_topic)
        received, published = (
            {bytes(end.endpoint_gid) for end in ends if end.node_name == node} for ends in (readers, writers)
        )
        return received, published

    def is_seen(self, image_topic: str) -> bool:
        """Tell whether anybody receives a robot's images."""
        return self._cameras[image_topic].get_subscription_count() > 0

    def renew_camera(self, image_topic: str) -> None:
        """Replace the publisher of a robot's images, as when a camera is restarted."""
        old = self._cameras[image_topic]
        self._cameras[image_topic] = self.node.create_publisher(Image, image_topic, _MANY)
        self.call(lambda: self.node.destroy_publisher(old))

    def tune(self, node: str, parameter: str, value: str, answered: Callable[[str], None]) -> None:
        """Set a parameter of a node, if the node is there, as a user of rqt does.

        Args:
            node: the node's name, with its namespace.
            parameter: the parameter's name.
            value: the new value.
            answered: called in the station's thread with the reason for a refusal, or an empty text; never called where
                the node ends before it answers.
        """
        if node not in self._tuners:
            self._tuners[node] = self.node.create_client(SetParameters, f"{node}/set_parameters")
        if not self._tuners[node].service_is_ready():
            return
        request = SetParameters.Request(parameters=[Parameter(parameter, value=value).to_parameter_msg()])
        self._tuners[node].call_async(request).add_done_callback(
            lambda future: answered(" ".join(result.reason for result in future.result().results))
        )

    def publish(self, image_topic: str, stamp: int, image: NDArray[np.uint8], *, damaged: bool = False) -> None:
        """Publish an image, uint8 [height, width, 3], BGR; a damaged one has a header with a wrong size."""
        height, width = image.shape[:2]
        header = Header(stamp=time_message(stamp), frame_id="camera")
        message = Image(header=header, height=height, width=width, encoding="bgr8", step=3 * width)
        message.data = byte_array(image.tobytes())
        if damaged:
            message.height = message.width = _LIE
        self._cameras[image_topic].publish(message)

    def join_server(self, share_topic: str, answer_topic: str, receive: Callable[[Packet], None]) -> None:
        """Receive what a server answers on a topic; :meth:`send` then reaches the server."""
        if share_topic not in self._to_server:
            self._to_server[share_topic] = self.node.create_publisher(SplitPacket, share_topic, _MANY)
        self._from_server[answer_topic] = self.node.create_subscription(
            SplitPacket, answer_topic, lambda message: receive(packet_from(message)), _MANY
        )

    def send(self, share_topic: str, packet: Packet) -> None:
        """Send a packet to the server."""
        self._to_server[share_topic].publish(packet_message(packet))

    def leave_server(self, answer_topic: str) -> None:
        """Stop receiving on a topic."""
        subscription = self._from_server.pop(answer_topic)
        self.call(lambda: self.node.destroy_subscription(subscription))
