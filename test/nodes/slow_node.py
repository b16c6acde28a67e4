# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node that works on each frame for as many seconds as the frame's stamp says."""

from __future__ import annotations

import time

from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival
from cacheinf_ros.pipeline.node_configs import ImageConfig
from cacheinf_ros.pipeline.pairing import LatestQueue


class SlowNode(FrameNode):
    def __init__(self) -> None:
        super().__init__("slow", ImageConfig)

    def activate(self) -> None:
        super().activate()
        self._queue: LatestQueue[Arrival] = LatestQueue(1)
        self._camera = Camera(self, self.parameters.get(ImageConfig), self.health, self._store_image)
        self.begin(self._queue, self._work)

    def deactivate(self) -> None:
        self._camera.close()
        super().deactivate()

    def _store_image(self, arrival: Arrival) -> None:
        self.store(lambda: self._queue.put(arrival))

    def _work(self, arrival: Arrival) -> None:
        seconds = arrival.stamp_ns / 1e9
        self.get_logger().info(f"begun {seconds:g}")
        time.sleep(seconds)
        self.get_logger().info(f"finished {seconds:g}")


def main() -> int:
    return run_node("slow", SlowNode)
