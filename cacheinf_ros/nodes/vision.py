# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Results as vision_msgs, where a ROS distribution has them (there are no wheels of them)."""

from __future__ import annotations

from rclpy.node import Node
from std_msgs.msg import Header

from cacheinf_ros.engine import Box, Decoded
from cacheinf_ros.nodes.conversions import stamp_ns
from cacheinf_ros.nodes.topics import profile, publish_on

try:
    from vision_msgs.msg import (
        Classification,
        Detection2D,
        Detection2DArray,
        ObjectHypothesis,
        ObjectHypothesisWithPose,
    )
except ImportError:
    Classification = None

_DEPTH = 10


class VisionTopics:
    """``~/classification`` and ``~/detections``; does nothing without vision_msgs."""

    def __init__(self, node: Node) -> None:
        if Classification is not None:
            self._classification = publish_on(node, Classification, "~/classification", profile(_DEPTH))
            self._detections = publish_on(node, Detection2DArray, "~/detections", profile(_DEPTH))

    def publish(self, header: Header, decoded: Decoded) -> None:
        """Publish what there is: classes where the model gives classes, boxes (also none) where it does not."""
        if Classification is None or decoded.class_map is not None:
            return
        if decoded.classes:
            results = [ObjectHypothesis(class_id=c.name or str(c.id), score=float(c.score)) for c in decoded.classes]
            self._classification.publish(Classification(header=header, results=results))
        else:
            detections = [_detection(header, box, index) for index, box in enumerate(decoded.boxes)]
            self._detections.publish(Detection2DArray(header=header, detections=detections))


def _detection(header: Header, box: Box, index: int) -> Detection2D:
    """A detection whose ``id`` no other one has: nothing is tracked from frame to frame."""
    hypothesis = ObjectHypothesisWithPose()
    hypothesis.hypothesis = ObjectHypothesis(class_id=box.name or str(box.class_id), score=float(box.score))
    detection = Detection2D(header=header, results=[hypothesis], id=f"{stamp_ns(header)}-{index}")
    detection.bbox.center.position.x = float(box.x + box.width / 2)
    detection.bbox.center.position.y = float(box.y + box.height / 2)
    detection.bbox.size_x, detection.bbox.size_y = float(box.width), float(box.height)
    return detection
