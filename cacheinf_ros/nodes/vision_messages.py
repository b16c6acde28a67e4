# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Results as vision_msgs messages, with the label information that their subscribers need."""

from __future__ import annotations

from rclpy.node import Node
from std_msgs.msg import Header

from cacheinf_ros.engine import Box, Decoded, Selection
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Detector
from cacheinf_ros.nodes.conversions import stamp_ns
from cacheinf_ros.nodes.topics import profile, publish_on

try:
    from vision_msgs.msg import (
        Classification,
        Detection2D,
        Detection2DArray,
        LabelInfo,
        ObjectHypothesis,
        ObjectHypothesisWithPose,
        VisionClass,
        VisionInfo,
    )
except ImportError:
    HAS_VISION_MSGS = False
else:
    HAS_VISION_MSGS = True

_DEPTH = 10


class VisionTopics:
    """The topics ``~/classification``, ``~/detections``, latched ``~/label_info`` and ``~/vision_info``."""

    def __init__(self, node: Node, card: ModelCard) -> None:
        """Create the publishers, and tell the model's labels and own threshold."""
        self._node, self._card = node, card
        self._classification = publish_on(node, Classification, "~/classification", profile(_DEPTH))
        self._detections = publish_on(node, Detection2DArray, "~/detections", profile(_DEPTH))
        self._labels = publish_on(node, LabelInfo, "~/label_info", profile(1, latched=True))
        self._info = publish_on(node, VisionInfo, "~/vision_info", profile(1, latched=True))
        self._info.publish(
            VisionInfo(header=self._header(), method=card.name, database_location=self._labels.topic_name)
        )
        self.tell_labels(Selection())

    def tell_labels(self, selection: Selection) -> None:
        """Publish the names of the model's classes, and the threshold that holds from now on."""
        threshold = selection.score_threshold
        if threshold is None:
            threshold = self._card.decoder.score_threshold if isinstance(self._card.decoder, Detector) else 0.0
        classes = [VisionClass(class_id=number, class_name=name) for number, name in enumerate(self._card.labels)]
        self._labels.publish(LabelInfo(header=self._header(), class_map=classes, threshold=threshold))

    def publish(self, header: Header, decoded: Decoded) -> None:
        """Publish classes where the model gives classes, else boxes, of which there may be none."""
        if decoded.class_map is not None:
            return
        if decoded.classes:
            results = [ObjectHypothesis(class_id=c.name or str(c.id), score=float(c.score)) for c in decoded.classes]
            self._classification.publish(Classification(header=header, results=results))
        else:
            detections = [_detection(header, box, index) for index, box in enumerate(decoded.boxes)]
            self._detections.publish(Detection2DArray(header=header, detections=detections))

    def _header(self) -> Header:
        return Header(stamp=self._node.get_clock().now().to_msg())


def _detection(header: Header, box: Box, index: int) -> Detection2D:
    """Return a detection; its ``id`` is that of the tracked object, or unique to it where none is tracked."""
    hypothesis = ObjectHypothesisWithPose()
    hypothesis.hypothesis = ObjectHypothesis(class_id=box.name or str(box.class_id), score=float(box.score))
    own_id = str(box.track) if box.track else f"{stamp_ns(header)}-{index}"
    detection = Detection2D(header=header, results=[hypothesis], id=own_id)
    detection.bbox.center.position.x = float(box.x + box.width / 2)
    detection.bbox.center.position.y = float(box.y + box.height / 2)
    detection.bbox.size_x, detection.bbox.size_y = float(box.width), float(box.height)
    return detection
