# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A recording loses nothing on the way from the nodes, however late the recorder gets to it."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

from collections.abc import Iterator

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from std_msgs.msg import Header

from cacheinf_ros.harness.playback import RESULT_TOPIC, kept_for_recorder, lossless
from cacheinf_ros.msg import FrameFigures, InferenceResult
from cacheinf_ros.nodes.conversions import time_message
from cacheinf_ros.nodes.figures import FigureTopic
from cacheinf_ros.nodes.image_messages import LazyImage
from cacheinf_ros.nodes.recorder import Recorder
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.pipeline.polling import wait_until

LIMIT_S = 30.0
RECORDED = ("/robot/class_map", "/robot/figures", f"/{RESULT_TOPIC}")


@pytest.fixture
def _ended() -> Iterator[None]:
    yield
    rclpy.try_shutdown()


@pytest.mark.usefixtures("_ended")
@pytest.mark.parametrize(("waits", "depths"), [(False, (1, 10, 10)), (True, (1000, 1000, 1000))])
def test_what_is_recorded_waits_for_the_recorder(waits: bool, depths: tuple[int, ...]) -> None:
    """After a slow frame a hundred answers may come at once; a publisher with a depth of ten would keep only ten."""
    given = {**lossless(), **kept_for_recorder(*RECORDED)} if waits else {}
    rclpy.init(args=["--ros-args", *(word for name, value in given.items() for word in ("-p", f"{name}:={value}"))])
    node = rclpy.create_node("robot")
    LazyImage(node, "~/class_map")
    FigureTopic(node)
    publish_on(node, InferenceResult, RESULT_TOPIC, profile(10))
    kept = {publisher.topic_name: publisher.qos_profile.depth for publisher in node.publishers}
    assert tuple(kept[topic] for topic in RECORDED) == depths


@pytest.mark.parametrize("hears_figures", [False, True])
def test_figures_may_come_after_the_results(domain: int, hears_figures: bool) -> None:
    """The recording is taken when it is complete: a page once lacked the node's figures for its last hundred frames."""
    with Recorder(domain=domain, result_topic="r", figures_topic="f" if hears_figures else "") as recorder:
        results = recorder.node.create_publisher(InferenceResult, "r", profile(10, latched=True))
        figures = recorder.node.create_publisher(FrameFigures, "f", profile(10))
        assert not recorder.is_behind, "nothing is expected before a result"
        header = Header(stamp=time_message(10**9))
        results.publish(InferenceResult(header=header))
        assert wait_until(lambda: bool(recorder.results), LIMIT_S)
        assert recorder.is_behind is hears_figures
        figures.publish(FrameFigures(header=header))
        assert wait_until(lambda: not recorder.is_behind, LIMIT_S)
