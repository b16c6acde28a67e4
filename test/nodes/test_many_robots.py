# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Four robots share their frames with one server, which keeps them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.pipeline.polling import wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image

from cacheinf_ros.msg import InferenceResult

ROBOTS = 4
PICTURES = 10
ROUNDS = 12
START_S = 60.0
FRAME_S = 10.0
TOPICS = {"server.share_topic": "/frame_shares", "server.shared_topic": "/frame_shared"}
_MANY = QoSProfile(depth=100)


class Robot:
    """A robot's node, its camera, and the results that it publishes."""

    def __init__(self, number: int, nodes: NodeGroup, station: Any, command: Callable[..., NodeCommand]) -> None:
        name, given = (
            f"robot{number}",
            command(
                "cached_inference",
                **{"server.use": True, "server.policy": "remote", "server.deadline_ms": 5000.0, "server.probe_s": 0.1},
                **TOPICS,
            ),
        )
        self._first_seed = number * PICTURES
        self.process = nodes.start(
            NodeCommand(executable=given.executable, namespace=f"/{name}", name=name, parameters=given.parameters)
        )
        self.camera = station.node.create_publisher(Image, f"/{name}/camera/image", _MANY)
        self.results: list[Any] = []
        station.node.create_subscription(InferenceResult, f"/{name}/results", self.results.append, _MANY)
        self.right: list[Any] = []

    def publish(self, number: int, camera_image: Callable[..., Any]) -> None:
        seed = self._first_seed + number % PICTURES
        self.camera.publish(camera_image(10**12 + number * 50_000_000, seed=seed))

    def check(self, number: int) -> None:
        right, result = self.right[number % PICTURES], self.results[-1]
        assert not result.error
        assert np.allclose(*(np.frombuffer(r.data, np.float32) for r in (result, right)), rtol=1e-5, atol=1e-5)


def test_each_gets_its_own_results(rig: Any) -> None:
    robots = [Robot(number, rig.nodes, rig.station, rig.command) for number in range(ROBOTS)]
    for robot in robots:
        robot.process.wait_ready()
        assert wait_until(lambda robot=robot: robot.camera.get_subscription_count() == 1, START_S)  # type: ignore[misc]

    def film(number: int) -> list[Any]:
        """Publish a frame of every robot at once, and return their results."""
        before = [len(robot.results) for robot in robots]
        for robot in robots:
            robot.publish(number, rig.image)
        ends = list(zip(robots, before, strict=True))
        assert wait_until(lambda: all(len(robot.results) > had for robot, had in ends), FRAME_S)
        return [robot.results[-1] for robot in robots]

    count = rig.station.node.count_publishers
    assert wait_until(lambda: all(count(f"/robot{i}/results") for i in range(ROBOTS)), START_S)
    for number in range(PICTURES):
        for robot, result in zip(robots, film(number), strict=True):
            robot.right.append(result)
    server = rig.nodes.start(rig.command("server", **{"server.max_robots": ROBOTS}, **TOPICS))
    server.wait_ready()
    number = PICTURES
    while not all(result.where == "shared" for result in film(number)):
        number += 1
        assert number < 1000
    for _ in range(ROUNDS * PICTURES):
        number += 1
        results = film(number)
        assert [result.where for result in results] == ["shared"] * ROBOTS
        for robot in robots:
            robot.check(number)
    assert "Traceback" not in server.output
