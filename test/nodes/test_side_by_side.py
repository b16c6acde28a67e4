# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The node that shows two cameras' pictures side by side, over DDS, and an inference node that takes what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image

from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.graph import load_model
from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.nodes.spinning import ListeningNode
from cacheinf_ros.pipeline.polling import wait_until
from cacheinf_ros.sources import side_by_side

MS = 1_000_000
DEADLINE_S = 60.0
NODE = "side_by_side"
PARAMETERS = {"queue_size": 100, "image_reliability": "reliable"}


class TwoCameras(ListeningNode):
    """Publishes the pictures of both cameras, and keeps the frames that show them."""

    def __init__(self, domain: int) -> None:
        super().__init__("two_cameras", domain)
        many = QoSProfile(depth=1000)
        self.frames: list[Any] = []
        self.left, self.right = (
            self.node.create_publisher(Image, topic, many) for topic in ("camera/image", "camera/right/image")
        )
        self.node.create_subscription(Image, f"{NODE}/image", self.frames.append, many)

    def wait(self) -> None:
        """Wait until the node hears both cameras, and this node what it publishes."""
        for noted in ("image_publishers", "right_image_publishers"):
            assert wait_until(lambda noted=noted: int(self.said(NODE).get(noted, 0)) > 0, DEADLINE_S)  # type: ignore[misc]
        for camera in (self.left, self.right):
            assert wait_until(lambda camera=camera: camera.get_subscription_count() == 1, DEADLINE_S)  # type: ignore[misc]
        assert wait_until(lambda: self.node.count_publishers(f"{NODE}/image") == 1, DEADLINE_S)

    def wait_for_frames(self, count: int) -> list[Any]:
        assert wait_until(lambda: len(self.frames) >= count, DEADLINE_S)
        return list(self.frames)


@pytest.fixture
def cameras(domain: int) -> Iterator[TwoCameras]:
    with TwoCameras(domain) as both:
        yield both


def pixels(message: Any) -> Any:
    return np.frombuffer(bytes(message.data), np.uint8).reshape(message.height, message.width, -1)


def test_pictures_of_one_time_are_shown_side_by_side(nodes: Any, cameras: TwoCameras, camera_image: Any) -> None:
    node = nodes.start(NodeCommand(executable=NODE, parameters={**PARAMETERS, "most_apart_ms": 5.0}))
    node.wait_ready()
    cameras.wait()
    left = [camera_image(number * 100 * MS, seed=number) for number in (1, 2, 3)]
    right = [
        camera_image(number * 100 * MS + apart * MS, seed=10 + number) for number, apart in ((1, 4), (2, 40), (3, -4))
    ]
    for a, b in zip(left, right, strict=True):
        cameras.left.publish(a)
        cameras.right.publish(b)
    frames = cameras.wait_for_frames(2)
    assert [frame.header for frame in frames] == [left[0].header, left[2].header]
    for frame, (a, b) in zip(frames, ((left[0], right[0]), (left[2], right[2])), strict=True):
        np.testing.assert_array_equal(pixels(frame), np.concatenate((pixels(a), pixels(b)), axis=1))
    assert wait_until(lambda: cameras.said(NODE).get("unpaired") == "1", DEADLINE_S)
    assert wait_until(lambda: cameras.said(NODE).get("results") == "2", DEADLINE_S)
    node.stop()


def test_distances_become_levels_and_what_cannot_be_read_ends_nothing(
    nodes: Any, cameras: TwoCameras, camera_image: Any
) -> None:
    parameters = {**PARAMETERS, "right.image_values": [0.0, 5100.0]}
    node = nodes.start(NodeCommand(executable=NODE, parameters=parameters))
    node.wait_ready()
    cameras.wait()
    broken = camera_image(100 * MS)
    broken.encoding = "nothing known"
    for stamp_ns, picture in ((100 * MS, broken), (200 * MS, camera_image(200 * MS))):
        depth = camera_image(stamp_ns, "16UC1")
        depth.data = np.full((depth.height, depth.width), 1020, "<u2").tobytes()
        depth.step = 2 * depth.width
        cameras.left.publish(picture)
        cameras.right.publish(depth)
    (frame,) = cameras.wait_for_frames(1)
    assert (pixels(frame)[:, frame.width // 2 :] == 51).all()
    assert frame.header.stamp.nanosec == 200 * MS
    assert wait_until(lambda: cameras.said(NODE).get("right_image_values") == "0..5100", DEADLINE_S)
    assert wait_until(lambda: cameras.said(NODE).get("errors") == "1", DEADLINE_S)
    assert "nothing known" in node.output
    node.stop()


def test_cameras_with_different_clocks_are_told(nodes: Any, cameras: TwoCameras, camera_image: Any) -> None:
    node = nodes.start(NodeCommand(executable=NODE, parameters=PARAMETERS))
    node.wait_ready()
    cameras.wait()
    for number in range(1, 40):
        cameras.left.publish(camera_image(number * 100 * MS))
        cameras.right.publish(camera_image(number * 100 * MS + 50 * MS))
    told = "left pictures in a row have no right one within 20 ms"
    assert wait_until(lambda: told in node.output, DEADLINE_S)
    assert not cameras.frames
    node.stop()


def test_an_inference_node_answers_what_is_shown(
    nodes: Any, rig: Any, cameras: TwoCameras, camera_image: Any, tmp_path: Path
) -> None:
    """Answers are those of dense execution, and a left picture that changes alone leaves the right half reused."""
    pytest.importorskip("onnx")
    from two_pictures import network

    network(tmp_path, sizes=((48, 64), (48, 64)))
    (tmp_path / "card.yaml").write_text("factory: net.onnx\npictures: 2\none_channel_range: [0.5, 8]\n")
    taken = {"image_topic": f"{NODE}/image", "model": str(tmp_path / "card.yaml"), "outputs": "all"}
    started = [
        nodes.start(NodeCommand(executable=NODE, parameters=PARAMETERS)),
        nodes.start(rig.command("cached_inference", mode="exact", threshold=100.0, **taken)),
    ]
    for each in started:
        each.wait_ready()
    cameras.wait()
    assert wait_until(lambda: rig.station.said("cached_inference").get("image_publishers") == "1", DEADLINE_S)
    rig.station.wait_for_publisher()
    results = []
    for number, seed in ((1, 1), (2, 2), (3, 1)):
        cameras.left.publish(camera_image(number * 100 * MS, seed=seed))
        cameras.right.publish(camera_image(number * 100 * MS, "mono8", seed=9))
        rig.station.wait_for_results(number)
        results.append(rig.station.results[-1])
    assert [each.header.stamp.nanosec for each in results] == [100 * MS, 200 * MS, 300 * MS]
    assert results[1].reuse_ratio == pytest.approx(0.5, abs=0.1)
    model = load_model(str(tmp_path / "card.yaml"))
    for seed, each in zip((1, 2, 1), results, strict=True):
        shown = [pixels(camera_image(0, kind, seed=number)) for kind, number in (("bgr8", seed), ("mono8", 9))]
        frame = side_by_side(shown[0], np.repeat(shown[1], 3, axis=2))
        with torch.inference_mode():
            expected = model.module(torch.from_numpy(Preprocessor(model.card).input(frame)))["y"].numpy()
        found = np.frombuffer(bytes(each.data), np.float32).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    for each in started:
        each.stop()
