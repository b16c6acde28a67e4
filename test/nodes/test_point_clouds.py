# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Nodes compute voxels of a lidar's clouds of points, over DDS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("onnx")

from rclpy.qos import QoSProfile
from sensor_msgs.msg import PointCloud2, PointField
from std_msgs.msg import Header
from voxel_network import SIZE, SLICES, card, network

from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.graph import load_model
from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.nodes.conversions import time_message
from cacheinf_ros.nodes.spinning import SpinningNode
from cacheinf_ros.pipeline.polling import wait_until
from cacheinf_ros.sources import parse_voxel_grid

MS = 1_000_000
DEADLINE_S = 60.0
VOXELS = str(parse_voxel_grid(f"{SIZE[0]}x{SIZE[1]}x{SLICES}, 0..24, -16..16, 0..3"))
TOPIC = "lidar/points"


def points(moved: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a wall, and a post that stands where it was moved to."""
    wall = np.array([[20.5, y, z] for y in np.arange(-15.5, 16) for z in np.arange(0.25, 3, 0.5)], np.float32)
    post = np.array([[5.5, moved + 0.5, z] for z in np.arange(0.25, 3, 0.5)], np.float32)
    return np.concatenate((wall, post))


def cloud(stamp_ns: int, found: np.ndarray[Any, np.dtype[np.float32]]) -> PointCloud2:
    return PointCloud2(
        header=Header(stamp=time_message(stamp_ns), frame_id="lidar"),
        height=1,
        width=len(found),
        fields=[PointField(name=n, offset=4 * i, datatype=PointField.FLOAT32, count=1) for i, n in enumerate("xyz")],
        point_step=12,
        row_step=12 * len(found),
        data=found.tobytes(),
        is_dense=True,
    )


@pytest.fixture
def lidar(domain: int) -> Iterator[Callable[[PointCloud2], None]]:
    with SpinningNode("lidar", domain) as spinning:
        publisher = spinning.node.create_publisher(PointCloud2, TOPIC, QoSProfile(depth=100))

        def publish(message: PointCloud2) -> None:
            assert wait_until(lambda: publisher.get_subscription_count() > 0, DEADLINE_S)
            publisher.publish(message)

        yield publish


@pytest.mark.parametrize("is_volume", [False, True], ids=["channels", "volume"])
def test_answers_are_those_of_the_voxels(rig: Any, lidar: Any, tmp_path: Path, is_volume: bool) -> None:
    network(tmp_path, is_volume=is_volume)
    taken = {"image_topic": TOPIC, "voxels": VOXELS, "model": card(tmp_path), "outputs": "all"}
    node = rig.nodes.start(rig.command("cached_inference", mode="exact", **taken))
    node.wait_ready()
    rig.station.diagnostics.clear()  # forget nodes that have ended
    assert wait_until(lambda: rig.station.said("cached_inference").get("image_publishers") == "1", DEADLINE_S)
    rig.station.wait_for_publisher()
    model = load_model(card(tmp_path))
    for number, moved in ((1, 0), (2, 0), (3, 4)):
        lidar(cloud(number * 100 * MS, points(moved)))
        rig.station.wait_for_results(number)
        result = rig.station.results[-1]
        frame = parse_voxel_grid(VOXELS).frame(points(moved).T)
        with torch.inference_mode():
            expected = model.module(torch.from_numpy(Preprocessor(model.card).input(frame)))["y"].numpy()
        assert not result.error and result.header.frame_id == "lidar"
        found = np.frombuffer(bytes(result.data), np.float32).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    ratios = [result.reuse_ratio for result in rig.station.results]
    assert (ratios[0], ratios[1]) == (0.0, 1.0) and 0.5 < ratios[2] < 1.0
    assert wait_until(lambda: rig.station.said("cached_inference").get("voxels") == VOXELS, DEADLINE_S)
    node.stop()


def test_a_cloud_without_coordinates_is_an_error_and_ends_nothing(rig: Any, lidar: Any, tmp_path: Path) -> None:
    network(tmp_path, is_volume=False)
    taken = {"image_topic": TOPIC, "voxels": VOXELS, "model": card(tmp_path)}
    node = rig.nodes.start(rig.command("cached_inference", **taken))
    node.wait_ready()
    rig.station.diagnostics.clear()  # forget nodes that have ended
    assert wait_until(lambda: rig.station.said("cached_inference").get("image_publishers") == "1", DEADLINE_S)
    rig.station.wait_for_publisher()
    broken = cloud(100 * MS, points())
    broken.fields[2].name = "height"
    lidar(broken)
    rig.station.wait_for_results(1)
    assert "the points of a cloud have no z" in rig.station.results[0].error
    lidar(cloud(200 * MS, points()))
    rig.station.wait_for_results(2)
    assert not rig.station.results[1].error
    node.stop()


@pytest.mark.parametrize("voxels", [VOXELS, VOXELS.replace("0.0..3.0", "0.0..4.0")], ids=["the same", "others"])
def test_maps_are_used_if_their_voxels_are_the_same(rig: Any, lidar: Any, tmp_path: Path, voxels: str) -> None:
    """Frames of other voxels are as large, so that nothing else tells them apart."""
    network(tmp_path, is_volume=False)
    common = {"image_topic": TOPIC, "queue_size": 1000, "image_reliability": "reliable"}
    here = {**common, "voxels": VOXELS, "model": card(tmp_path)}
    nodes = [
        rig.nodes.start(rig.command("inference", mode="exact", map_timeout_ms=2000.0, **here)),
        rig.nodes.start(NodeCommand(executable="matcher", parameters={**common, "voxels": voxels})),
    ]
    for node in nodes:
        node.wait_ready()
    rig.station.diagnostics.clear()  # forget nodes that have ended
    for name in ("inference", "matcher"):
        assert wait_until(lambda name=name: rig.station.said(name).get("image_publishers") == "1", DEADLINE_S)  # type: ignore[misc]
    rig.station.wait_for_publisher()
    for number in (1, 2, 3):
        lidar(cloud(number * 100 * MS, points()))
        rig.station.wait_for_results(number)
    assert wait_until(lambda: len(rig.station.maps) >= 3, DEADLINE_S)
    assert rig.station.maps[-1].reuse_ratio == 1.0
    assert rig.station.results[-1].reuse_ratio == (1.0 if voxels == VOXELS else 0.0)
    assert ("start both nodes with the same" in nodes[0].output) == (voxels != VOXELS)
    for node in nodes:
        node.stop()


@pytest.mark.parametrize(
    ("executable", "given", "message"),
    [
        (
            "cached_inference",
            {"voxels": VOXELS.replace("x6,", "x5,")},
            "make 5 pictures of 24x32 pixels, and card takes 6",
        ),
        ("side_by_side", {"voxels": VOXELS}, "side_by_side shows images"),
    ],
)
def test_nodes_that_cannot_show_these_voxels_end(
    rig: Any, tmp_path: Path, executable: str, given: dict[str, Any], message: str
) -> None:
    network(tmp_path, is_volume=False)
    model = {"model": card(tmp_path)} if executable == "cached_inference" else {}
    node = rig.nodes.start(NodeCommand(executable=executable, parameters={**given, **model}))
    assert node.wait(DEADLINE_S) == 2
    assert message in node.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"voxels": "32"}, "give cells along x, y and z"),
        ({"voxels": VOXELS, "image_transport": "compressed"}, "leave image_transport and image_values out"),
        ({"voxels": VOXELS, "image_values": [0.0, 5.0]}, "leave image_transport and image_values out"),
    ],
)
def test_parameters_that_make_no_frames_are_refused(given: dict[str, Any], message: str) -> None:
    from cacheinf_ros.errors import ConfigError
    from cacheinf_ros.pipeline.node_configs import ImageConfig

    with pytest.raises(ConfigError, match=message):
        ImageConfig.checked(**given)
