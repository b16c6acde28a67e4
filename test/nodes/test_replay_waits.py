# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Replay waits for an inference node that is slower than the recording, so that no image is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from sensor_msgs.msg import Image

from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.harness.processes import NodeProcess
from cacheinf_ros.nodes.spinning import SpinningNode
from cacheinf_ros.nodes.topics import profile
from cacheinf_ros.pipeline.polling import wait_until

LIMIT_S = 60.0
FRAMES, AHEAD = 20, 5


class Slow(SpinningNode):
    """An inference node that answers when it is told to."""

    def __init__(self, domain: int) -> None:
        super().__init__("slow", domain)
        self.images = 0
        self.node.create_subscription(Image, "camera/image", self._count, profile(1000))
        self._diagnostics = self.node.create_publisher(DiagnosticArray, "/diagnostics", profile(10))

    def say(self, *, results: int, dropped: int = 0) -> None:
        values = [KeyValue(key="results", value=str(results)), KeyValue(key="dropped", value=str(dropped))]
        self._diagnostics.publish(DiagnosticArray(status=[DiagnosticStatus(name="slow", values=values)]))

    def _count(self, image: Image) -> None:
        self.images += 1


@pytest.fixture
def slow(domain: int) -> Iterator[Slow]:
    with Slow(domain) as node:
        yield node


def replay(nodes: NodeGroup, **values: str | int | float) -> NodeProcess:
    parameters: dict[str, str | int | float] = {
        "source": "scene:fixed", "frames": FRAMES, "rate": 1000.0, "queue_size": 100, "wait_for_subscribers": 1,
        "most_ahead": AHEAD,
    }  # fmt: skip
    return nodes.start(NodeCommand(executable="replay", parameters={**parameters, **values}))


def test_replay_waits_for_a_node_that_falls_behind(nodes: NodeGroup, slow: Slow) -> None:
    process = replay(nodes, wait_for_node="/slow")

    def received(images: int, *, results: int, dropped: int = 0) -> bool:
        def holds() -> bool:
            slow.say(results=results, dropped=dropped)  # again and again, as nodes do: replay may not listen yet
            return slow.images >= images

        return wait_until(holds, LIMIT_S)

    assert received(AHEAD, results=40), "what was answered before it began does not count"
    assert not wait_until(lambda: slow.images > AHEAD, 0.5)
    assert received(AHEAD + 3, results=42, dropped=1), "a dropped image is not waited for"
    assert not wait_until(lambda: slow.images > AHEAD + 3, 0.5)
    assert received(FRAMES, results=70)
    assert process.wait(LIMIT_S) == 0


def test_a_node_that_says_nothing_is_named(nodes: NodeGroup, slow: Slow) -> None:
    process = replay(nodes, wait_for_node="nobody", wait_timeout_s=2.0)
    assert process.wait(LIMIT_S) == 2
    assert "nobody has said nothing for 2 s: is it running?" in process.output
    assert not slow.images
