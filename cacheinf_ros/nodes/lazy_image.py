# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Image topics for people: they cost nothing while nobody looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from cacheinf_ros.nodes.camera_messages import serialized_image
from cacheinf_ros.nodes.topics import profile


class LazyImage:
    """An image topic that costs nothing while nobody subscribes."""

    def __init__(self, node: Node, topic: str) -> None:
        self._publisher = node.create_publisher(Image, topic, profile(1))

    @property
    def is_wanted(self) -> bool:
        """Whether anybody subscribes."""
        return self._publisher.get_subscription_count() > 0

    def publish(self, header: Header, image: NDArray[np.uint8]) -> None:
        """Publish uint8 [height, width, 3], BGR, or [height, width]."""
        self._publisher.publish(serialized_image(header, image))
