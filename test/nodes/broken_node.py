# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node with a bug, chosen by its name: a thread ends, work never begins, it cannot begin, or a callback fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival
from cacheinf_ros.pipeline.node_configs import ImageConfig
from cacheinf_ros.pipeline.pairing import LatestQueue

MORTAL, IDLE, CLUMSY, NERVOUS = "mortal", "idle", "clumsy", "nervous"

TESTS = Path(__file__).parents[1]


def broken_command(name: str, **parameters: Any) -> NodeCommand:
    """Return the command of such a node, which finds this file and the package beside it."""
    return NodeCommand(
        executable="nodes.broken_node",
        name=name,
        parameters={"image_topic": "camera/image", "image_reliability": "reliable", **parameters},
        environment={"PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent)))},
    )


class BrokenNode(FrameNode):
    def __init__(self) -> None:
        super().__init__("broken", ImageConfig)
        self._queue: LatestQueue[Arrival] = LatestQueue(1, is_open=lambda: self.get_name() == MORTAL)

    def activate(self) -> None:
        self._camera = Camera(self, self.parameters.get(ImageConfig), self.health, self._store_image)
        if self.get_name() == CLUMSY:
            raise RuntimeError("stumbled")
        self.begin(self._queue, self._work)

    def _store_image(self, arrival: Arrival) -> None:
        if self.get_name() == NERVOUS:
            raise ValueError(f"image {arrival.stamp_ns}")
        self.store(lambda: self._queue.put(arrival))

    def _work(self, arrival: Arrival) -> None:
        raise SystemExit(f"frame {arrival.stamp_ns}")


def main() -> int:
    return run_node("broken", BrokenNode)
