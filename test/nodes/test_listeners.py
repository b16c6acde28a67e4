# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Listeners outlive messages that cannot be read: anybody may publish on their topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from cacheinf_ros.cache_map import CacheMap as MapValue
from cacheinf_ros.cache_map import Motion
from cacheinf_ros.msg import CacheMap, InferenceResult
from cacheinf_ros.nodes.conversions import cache_map_message, time_message
from cacheinf_ros.nodes.recorder import Recorder
from cacheinf_ros.nodes.robot_station import Heard, RobotStation
from cacheinf_ros.nodes.spinning import surviving
from cacheinf_ros.nodes.topics import profile
from cacheinf_ros.pipeline import MapUpdate
from cacheinf_ros.pipeline.polling import wait_until

LIMIT_S = 30.0
LATCHED, PLAIN = profile(10, latched=True), profile(10)
HEADER = Header(stamp=time_message(10**9))


@pytest.fixture
def recorder(domain: int) -> Iterator[Recorder]:
    with Recorder(domain=domain, result_topic="r", class_map_topic="c", figures_topic="f") as recorder:
        yield recorder


def publish_damaged_and_right(node: Any, topic: str, qos: QoSProfile, damaged: Any, right: Any) -> None:
    publisher = node.create_publisher(type(right), topic, qos)
    assert wait_until(lambda: publisher.get_subscription_count() == 1, LIMIT_S)
    publisher.publish(damaged)
    publisher.publish(right)


def right_map() -> CacheMap:
    nothing = MapValue.of_blocks(np.zeros((1, 1), np.bool_), (4, 4), 4, Motion.none())
    return cache_map_message(
        HEADER,
        MapUpdate(
            session="s", sequence=1, reference_sequence=0, stamp_ns=10**9, reference_stamp_ns=0, cache_map=nothing
        ),
        (0.0, 0.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "qos", "damaged", "right", "kept"),
    [
        ("r", LATCHED, InferenceResult(stage_names=["compute"]), InferenceResult(), "results"),
        ("cache_map", LATCHED, CacheMap(height=4, width=4, block_size=4), right_map(), "links"),
        ("c", PLAIN, Image(height=2, width=2, step=2, data=[1]), Image(header=HEADER), "class_maps"),
    ],
    ids=["result", "cache map", "class map"],
)
def test_a_recording_goes_on(
    recorder: Recorder, topic: str, qos: QoSProfile, damaged: Any, right: Any, kept: str
) -> None:
    publish_damaged_and_right(recorder.node, topic, qos, damaged, right)
    assert wait_until(lambda: len(getattr(recorder, kept)) == 1, LIMIT_S)


def test_a_robots_station_goes_on(domain: int) -> None:
    heard: list[Heard] = []
    with RobotStation(domain) as station:
        station.add_robot("camera/image", "results", heard.append)
        damaged = InferenceResult(output_names=["scores"])  # without its type, shape and size
        publish_damaged_and_right(station.node, "results", PLAIN, damaged, InferenceResult(header=HEADER))
        assert wait_until(lambda: [each.stamp_ns for each in heard] == [10**9], LIMIT_S)


def test_what_cannot_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    read: list[int] = []
    receive = surviving("a number", lambda message: read.append(int(message)))
    for message in ("1", "one", "2"):
        receive(message)
    assert read == [1, 2]
    assert [record.getMessage() for record in caplog.records] == ["a number: internal error"]
