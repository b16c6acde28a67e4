# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The topics of results: one message per accepted image, and pictures for whoever looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Decoded
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.lazy_image import LazyImage
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.nodes.vision import VisionTopics
from cacheinf_ros.pipeline.node_configs import ResultConfig
from cacheinf_ros.pipeline.result_overlay import draw_result

_RESULT_DEPTH = 10
_CAPTION_CLASSES = 3


class ResultTopics:
    """``~/result``, ``~/overlay``, ``~/class_map`` and, where vision_msgs is installed, its messages."""

    def __init__(self, node: Node, config: ResultConfig) -> None:
        self._result = publish_on(node, InferenceResult, config.result_topic, profile(_RESULT_DEPTH))
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
