# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The topics of results: one message per accepted image, and pictures for whoever looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from std_msgs.msg import Header

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Box, Decoded
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.conversions import stamp_ns
from cacheinf_ros.nodes.image_messages import LazyImage
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.pipeline.node_configs import ResultConfig
from cacheinf_ros.pipeline.result_overlay import draw_result

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
_CAPTION_CLASSES = 3


class ResultTopics:
    """``~/result``, ``~/overlay``, ``~/class_map`` and, where vision_msgs is installed, its messages."""

    def __init__(self, node: Node, config: ResultConfig) -> None:
        self._result = publish_on(node, InferenceResult, config.result_topic, profile(_DEPTH))
        self._overlay = LazyImage(node, "~/overlay")
        self._class_map = LazyImage(node, "~/class_map")
        self._vision = VisionTopics(node)

    def publish(self, result: InferenceResult) -> None:
        """Publish a result."""
        self._result.publish(result)

    def illustrate(
        self,
        result: InferenceResult,
        image: NDArray[np.uint8],
        cache_map: CacheMap | None,
        decoded: Decoded | None,
    ) -> None:
        """Publish the result's other forms to those who subscribe to them."""
        if self._overlay.is_wanted:
            self._overlay.publish(result.header, draw_result(image, cache_map, _caption(result), decoded))
        if decoded is not None and decoded.class_map is not None and self._class_map.is_wanted:
            self._class_map.publish(result.header, decoded.class_map)
        if decoded is not None:
            self._vision.publish(result.header, decoded)


def _caption(result: InferenceResult) -> list[str]:
    total = sum(result.stage_ms)
    lines = [f"{result.mode} ({result.where}): reuse {result.reuse_ratio:.2f}, {total:.0f} ms"]
    best = zip(result.class_names, result.class_scores, strict=True)
    lines += [f"{name} {score:.2f}" for name, score in best][:_CAPTION_CLASSES]
    return [*lines, result.error] if result.error else lines


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
