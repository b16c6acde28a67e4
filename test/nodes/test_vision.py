# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Results in vision_msgs agree with our own; scripts/ros2_tools builds vision_msgs where no distribution has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.pipeline.polling import wait_until
from cacheinf_ros.sources import open_source

vision_msgs = pytest.importorskip("vision_msgs.msg", reason="vision_msgs has no wheel: needs a ROS distribution")

FRAMES = 4
DEADLINE_S = 60.0

Answer = Callable[[str, type[Any], str], list[tuple[Any, Any]]]


@pytest.fixture(scope="module")
def answer(nodes: NodeGroup, shared_station: Any, inference_command: Callable[..., NodeCommand]) -> Answer:
    """Return a function that runs a model on frames of a scene: our result and the vision_msgs message of each."""
    from image_messages import image_message
    from std_msgs.msg import Header

    from cacheinf_ros.nodes.conversions import time_message

    station = shared_station
    images = [
        image_message(Header(stamp=time_message(10**9 + frame.stamp_ns), frame_id="camera"), frame.image)
        for frame in open_source(f"scene:fixed?frames={FRAMES}")
    ]

    def run(model: str, message_type: type[Any], topic: str) -> list[tuple[Any, Any]]:
        station.clear()
        messages: list[Any] = []
        subscription = station.node.create_subscription(message_type, topic, messages.append, 100)
        process = nodes.start(inference_command("cached_inference", model=model))
        process.wait_ready()
        station.wait_for_nodes(images[0], subscribers=1)
        assert wait_until(lambda: station.node.count_publishers(topic) == 1, DEADLINE_S)
        station.publish(*images)
        results = station.expect(FRAMES)
        assert wait_until(lambda: len(messages) >= FRAMES, DEADLINE_S)
        assert process.stop() == 0
        station.call(lambda: station.node.destroy_subscription(subscription))
        assert [message.header for message in messages] == [result.header for result in results]
        return list(zip(results, messages, strict=True))

    return run


@pytest.fixture(scope="module")
def detections(answer: Answer) -> list[tuple[Any, Any]]:
    """Return the results of a detector, each with its vision_msgs message."""
    found = answer("scenenet", vision_msgs.Detection2DArray, "cached_inference/detections")
    assert all(array.detections for _, array in found)
    return found


def test_boxes_are_published_as_detections(detections: list[tuple[Any, Any]]) -> None:
    for result, array in detections:
        boxes = [each.bbox for each in array.detections]
        sizes = np.transpose([result.box_width, result.box_height])
        centers = np.transpose([result.box_x, result.box_y]) + sizes / 2
        np.testing.assert_allclose([(box.size_x, box.size_y) for box in boxes], sizes, rtol=1e-5)
        np.testing.assert_allclose([(b.center.position.x, b.center.position.y) for b in boxes], centers, rtol=1e-5)
        assert all(detection.header == result.header for detection in array.detections)


def test_a_detection_says_its_class_and_score(detections: list[tuple[Any, Any]]) -> None:
    for result, array in detections:
        said = [detection.results[0].hypothesis for detection in array.detections]
        assert [hypothesis.class_id for hypothesis in said] == list(result.box_class_names)
        assert [hypothesis.score for hypothesis in said] == pytest.approx(list(result.box_scores))


def test_no_two_detections_have_the_same_id(detections: list[tuple[Any, Any]]) -> None:
    """Listeners tell detections apart by their ids; an empty id means that there is none."""
    ids = [detection.id for _, array in detections for detection in array.detections]
    assert all(ids)
    assert len(set(ids)) == len(ids)


def test_an_object_keeps_its_id_while_objects_are_followed(
    nodes: NodeGroup, shared_station: Any, inference_command: Callable[..., NodeCommand]
) -> None:
    from image_messages import image_message
    from std_msgs.msg import Header

    from cacheinf_ros.nodes.conversions import time_message

    station, arrays = shared_station, []
    topic = "cached_inference/detections"
    subscription = station.node.create_subscription(vision_msgs.Detection2DArray, topic, arrays.append, 100)
    process = nodes.start(inference_command("cached_inference", model="scenenet", tracks=True))
    process.wait_ready()

    def ids(frame: Any) -> list[str]:
        before = len(arrays)
        station.answer(image_message(Header(stamp=time_message(10**13 + frame.stamp_ns)), frame.image))
        assert wait_until(lambda: len(arrays) > before, DEADLINE_S)
        return [detection.id for detection in arrays[-1].detections]

    frames = list(open_source("scene:fixed?frames=3"))
    station.wait_for_nodes(image_message(Header(), frames[0].image), subscribers=1)
    assert wait_until(lambda: station.node.count_publishers(topic) == 1, DEADLINE_S)
    first, second = ids(frames[0]), ids(frames[1])
    assert first == [str(number) for number in range(1, len(first) + 1)]
    assert set(first) & set(second)
    assert station.set_parameters("cached_inference", tracks=False)[0][0].successful
    assert first and set(ids(frames[2])).isdisjoint(first)
    assert process.stop() == 0
    station.call(lambda: station.node.destroy_subscription(subscription))


def test_classes_are_published_as_a_classification(answer: Answer) -> None:
    for result, message in answer("scenenames", vision_msgs.Classification, "cached_inference/classification"):
        assert len(message.results) > 1
        assert [hypothesis.class_id for hypothesis in message.results] == list(result.class_names)
        assert [hypothesis.score for hypothesis in message.results] == pytest.approx(list(result.class_scores))


def test_who_comes_late_is_told_classes_and_threshold(
    nodes: NodeGroup, shared_station: Any, inference_command: Any
) -> None:
    from cacheinf_ros.nodes.topics import profile

    process = nodes.start(inference_command("cached_inference", model="scenenet", score_threshold=0.25))
    process.wait_ready()
    node, heard = shared_station.node, []
    for kind in ("LabelInfo", "VisionInfo"):
        topic = f"cached_inference/{'label_info' if kind == 'LabelInfo' else 'vision_info'}"
        node.create_subscription(getattr(vision_msgs, kind), topic, heard.append, profile(1, latched=True))
    assert wait_until(lambda: len(heard) == 2, DEADLINE_S)
    labels, info = sorted(heard, key=lambda message: type(message).__name__)
    assert [each.class_name for each in labels.class_map] == ["disc", "square", "triangle", "star", "cross"]
    assert labels.threshold == 0.25
    assert (info.method, info.database_location) == ("scenenet", "/cached_inference/label_info")
    assert process.stop() == 0
