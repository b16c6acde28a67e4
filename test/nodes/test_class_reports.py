# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Robots with the same model tell each other what classes it answers, and a specialist comes sooner for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from catalogs import catalog_command
from coloured import LABELS, picture

pytest.importorskip("rclpy", reason="needs ROS 2")

from image_messages import image_message
from std_msgs.msg import Header

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.specialists import original_weights
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder
from cacheinf_ros.harness import NodeGroup
from cacheinf_ros.msg import ClassCounts
from cacheinf_ros.nodes.class_reports import TOPIC
from cacheinf_ros.nodes.conversions import time_message
from cacheinf_ros.nodes.topics import profile
from cacheinf_ros.pipeline.polling import wait_until

START_S = DEADLINE_S = 60.0
RED, GREEN, BLUE = (LABELS.index(name) for name in ("red", "green", "blue"))
STEP_NS = 250_000_000  # the camera's time: 60 frames are half of the 30 s in which a robot alone looks for a skew
ALONE = 60


class OtherRobot:
    """Another robot, as far as the node can tell."""

    def __init__(self, station: Any) -> None:
        self.heard: list[ClassCounts] = []
        qos = profile(100, reliable=False)
        self._publisher = station.node.create_publisher(ClassCounts, TOPIC, qos)
        station.node.create_subscription(ClassCounts, TOPIC, self.heard.append, qos)

    def say(self, model: str, counts: dict[int, int], robot: str = "another") -> None:
        self._publisher.publish(
            ClassCounts(robot=robot, model=model, classes=list(counts), counts=list(counts.values()))
        )

    def of_nodes(self) -> list[ClassCounts]:
        return [message for message in list(self.heard) if len(message.robot) == 16]


class Camera:
    """Shows colours to the node, one frame after another."""

    def __init__(self, station: Any) -> None:
        self._station, self._numbers = station, count(1)
        self.shown = 0

    def show(self, class_id: int) -> Any:
        self.shown = next(self._numbers)
        header = Header(stamp=time_message(self.shown * STEP_NS), frame_id="camera")
        return self._station.answer(image_message(header, picture(class_id, self.shown % 4)))


@pytest.fixture
def begin(nodes: NodeGroup, station: Any, coloured: tuple[CatalogFolder, SpecialiseFolder]) -> Callable[..., Any]:
    def start(**parameters: Any) -> tuple[Any, Camera]:
        node = nodes.start(catalog_command([str(coloured[0].path)], rates=[1000.0], **parameters))
        node.wait_ready(START_S)
        header = Header(stamp=time_message(STEP_NS), frame_id="camera")
        station.wait_for_nodes(image_message(header, picture(RED, 0)), subscribers=1)
        return node, Camera(station)

    return start


def test_another_robot_shows_the_skew_sooner(
    begin: Callable[..., Any], station: Any, coloured: tuple[CatalogFolder, SpecialiseFolder]
) -> None:
    other, weights = OtherRobot(station), original_weights(coloured[0])
    node, camera = begin(specialise_together=True)

    def robots() -> int:
        other.say(weights, {BLUE: 20_000}, robot="a stranger")
        other.say("0" * 64, {BLUE: 1}, robot="with another model")
        other.say(weights, {RED: 200, GREEN: 100})
        return int(station.said("catalog_inference").get("robots_with_class_counts", 0))

    assert wait_until(lambda: robots() == 1, DEADLINE_S)
    assert wait_until(lambda: "more than 10000 answers" in node.output, DEADLINE_S)
    for number in range(20):
        camera.show((RED, RED, GREEN)[number % 3])

    def answers_first() -> bool:
        camera.show(RED)  # a specialist that was made is used from the next frame on
        return "a specialist for red, green answers first" in node.output

    while not wait_until(lambda: "answers first" in node.output, 1.0) and camera.shown < ALONE - 5:
        answers_first()
    assert answers_first(), (camera.shown, node.output)
    assert not other.of_nodes()  # it has not seen enough itself
    while camera.shown < ALONE + 5:
        camera.show((RED, RED, GREEN)[camera.shown % 3])
    assert wait_until(other.of_nodes, DEADLINE_S)
    message = other.of_nodes()[0]
    assert message.model == weights and set(message.classes) == {RED, GREEN} and sum(message.counts) > ALONE
    assert node.stop() == 0
    assert "Traceback" not in node.output


def test_nobody_is_told_without_being_asked_to(begin: Callable[..., Any], station: Any) -> None:
    node, camera = begin()
    for _ in range(ALONE + 10):
        camera.show(BLUE)
    publishers = {info.node_name for info in station.node.get_publishers_info_by_topic(TOPIC)}
    assert "catalog_inference" not in publishers
    assert "robots_with_class_counts" not in station.said("catalog_inference")
    assert node.stop() == 0
