# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Nodes see what a thermal or depth camera sees once they are told which of its values are black and white."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from image_messages import image_message
from std_msgs.msg import Header

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.nodes.conversions import compressed_message
from cacheinf_ros.nodes.image_messages import ImageReader
from cacheinf_ros.pipeline import Health, WorkState
from cacheinf_ros.pipeline.node_configs import ImageConfig
from cacheinf_ros.pipeline.polling import wait_until

MS = 1_000_000
VALUES = [7000.0, 8020.0]  # four raw values for each level
DEADLINE_S = 60.0


def grey_image() -> Any:
    """Return a mono8 message of noise."""
    return image_message(Header(), np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8))


def notes(health: Health) -> dict[str, str]:
    """Return what is reported."""
    return dict(health.status(WorkState(), latency_budget_ms=1e3, stuck_after_s=1e3, now_s=0.0).values)


def raw_image(grey: Any) -> Any:
    """Return the mono16 message of a mono8 message, as a camera with these values would send it."""
    from cacheinf_ros.nodes.conversions import byte_array

    levels = np.frombuffer(grey.data, np.uint8).astype("<u2")
    message = type(grey)(header=grey.header, height=grey.height, width=grey.width, encoding="mono16")
    message.step, message.data = 2 * grey.width, byte_array((7000 + 4 * levels).tobytes())
    return message


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0, 3.0], [5.0, 5.0], [0.0, float("nan")], [0.0, float("inf")]])
def test_values_that_are_none_are_refused_by_name(values: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"image_values = .*give .*, such as \[7000\.0, 9000\.0\]"):
        ImageConfig.checked(image_values=values)


def test_values_of_another_type_are_refused_with_an_example() -> None:
    with pytest.raises(ConfigError, match="image_values = 5"):
        ImageConfig.checked(image_values=5.0)


def test_raw_values_give_the_result_of_the_picture(rig: Any) -> None:
    node = rig.nodes.start(rig.command("cached_inference", mode="dense", outputs="all", image_values=[7000, 8020]))
    node.wait_ready()
    grey = [rig.image(number * 100 * MS, "mono8", seed=number) for number in (1, 2)]
    rig.station.wait_for_nodes(grey[0], subscribers=1)
    expected = [bytes(rig.station.answer(each).data) for each in grey]
    assert expected[0] != expected[1]
    assert [bytes(rig.station.answer(raw_image(each)).data) for each in grey] == expected
    assert wait_until(lambda: rig.station.said("cached_inference").get("image_values") == "7000..8020", DEADLINE_S)
    node.stop()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "has 5 of 256 grey levels: say which raw values are black and white"),
        ({"image_values": [0.3, 5.0]}, "has 1 of 256 grey levels: choose other image_values than 0.3..5"),
    ],
    ids=["none", "metres for millimetres"],
)
def test_a_picture_of_few_levels_is_told_with_the_remedy(values: dict[str, Any], told: str) -> None:
    health, raw = Health(), raw_image(grey_image())
    reader = ImageReader(ImageConfig(**values), health)
    for _ in range(3):
        reader.read(raw)
    assert told in notes(health)["image_levels"]
    assert reader.read(grey_image()).max() > 200  # 8 bits stay as they are, and are not judged
    assert "image_levels" in notes(health)


def test_what_was_told_of_a_closed_shutter_is_withdrawn() -> None:
    health = Health()
    reader = ImageReader(ImageConfig(image_values=tuple(VALUES)), health)
    closed = raw_image(grey_image())
    closed.data = bytes(len(closed.data))
    reader.read(closed)
    assert "image_levels" in notes(health)
    reader.read(raw_image(grey_image()))
    assert notes(health).keys() >= {"image_values"} and "image_levels" not in notes(health)
    reader.read(closed)
    assert "image_levels" not in notes(health)


def test_a_picture_that_jpeg_has_cut_is_told_so() -> None:
    health = Health()
    message = compressed_message(Header(), np.full((8, 8, 3), 255, np.uint8))
    message.format = "mono16; jpeg compressed mono8"
    ImageReader(ImageConfig(), health).read(message)
    assert "JPEG keeps 8 bits: choose png" in notes(health)["image_levels"]


def test_few_levels_are_in_the_nodes_diagnostics(rig: Any) -> None:
    node = rig.nodes.start(rig.command("cached_inference"))
    node.wait_ready()
    raw = raw_image(rig.image(100 * MS, "mono8"))
    rig.station.wait_for_nodes(raw, subscribers=1)
    assert not rig.station.answer(raw).error
    told = "an image, 'mono16', has 5 of 256 grey levels: say which raw values are black and white"
    assert wait_until(lambda: told in rig.station.said("cached_inference").get("image_levels", ""), DEADLINE_S)
    node.stop()


@pytest.mark.parametrize("values", [{}, {"image_values": VALUES}], ids=["others", "the same"])
def test_maps_are_used_if_their_values_are_the_same(rig: Any, values: dict[str, Any]) -> None:
    """By the upper byte nearly all of such a picture is the same, so that a map would reuse what has changed."""
    common = {"image_topic": "camera/image", "queue_size": 1000, "image_reliability": "reliable"}
    matcher = NodeCommand(executable="matcher", parameters={**common, **values})
    nodes = [
        rig.nodes.start(rig.command("inference", mode="exact", image_values=VALUES, map_timeout_ms=2000.0)),
        rig.nodes.start(matcher),
    ]
    for node in nodes:
        node.wait_ready()
    images = [raw_image(rig.image(number * 100 * MS, "mono8", seed=7)) for number in (1, 2, 3)]
    rig.station.wait_for_nodes(images[0], subscribers=2)
    reused = [rig.station.answer(image).reuse_ratio for image in images]
    assert wait_until(lambda: len(rig.station.maps) >= 3, DEADLINE_S)
    assert rig.station.maps[-1].reuse_ratio > 0.5
    assert (reused[-1] > 0.5) == bool(values)
    assert ("start both nodes with the same" in nodes[0].output) != bool(values)
    for node in nodes:
        node.stop()
