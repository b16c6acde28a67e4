# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node whose work on frames has a bug that no guard catches: by its name, its thread ends, or it never begins."""

from __future__ import annotations

from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival
from cacheinf_ros.pipeline.node_configs import ImageConfig
from cacheinf_ros.pipeline.pairing import LatestQueue

MORTAL, IDLE = "mortal", "idle"


class BrokenNode(FrameNode):
    def __init__(self) -> None:
        super().__init__("broken", ImageConfig)
        self._queue: LatestQueue[Arrival] = LatestQueue(1, is_open=lambda: self.get_name() == MORTAL)

    def activate(self) -> None:
        self._camera = Camera(self, self.parameters.get(ImageConfig), self.health, self._store_image)
        self.begin(self._queue, self._work)

    def _store_image(self, arrival: Arrival) -> None:
        self.store(lambda: self._queue.put(arrival))

    def _work(self, arrival: Arrival) -> None:
        raise SystemExit(f"frame {arrival.stamp_ns}")


def main() -> int:
    return run_node("broken", BrokenNode)
