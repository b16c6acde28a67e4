# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where raw values become a picture with hardly any grey levels, the user is told what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from image_messages import image_message, thermal_message
from std_msgs.msg import Header

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.nodes.conversions import compressed_message
from cacheinf_ros.nodes.image_messages import ImageReader
from cacheinf_ros.pipeline import Health, WorkState
from cacheinf_ros.pipeline.node_configs import ImageConfig


def grey_image() -> Any:
    """Return a mono8 message of noise."""
    return image_message(Header(), np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8))


def notes(health: Health) -> dict[str, str]:
    """Return what is reported."""
    return dict(health.status(WorkState(), latency_budget_ms=1e3, stuck_after_s=1e3, now_s=0.0).values)


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0, 3.0], [5.0, 5.0], [0.0, float("nan")], [0.0, float("inf")]])
def test_values_that_are_none_are_refused_by_name(values: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"image_values = .*give .*, such as \[7000\.0, 9000\.0\]"):
        ImageConfig.checked(image_values=values)


def test_values_of_another_type_are_refused_with_an_example() -> None:
    with pytest.raises(ConfigError, match="image_values = 5"):
        ImageConfig.checked(image_values=5.0)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "has 5 of 256 grey levels: say which raw values are black and white"),
        ({"image_values": [0.3, 5.0]}, "has 1 of 256 grey levels: choose other image_values than 0.3..5"),
    ],
    ids=["none", "metres for millimetres"],
)
def test_a_picture_of_few_levels_is_told_with_the_remedy(values: dict[str, Any], told: str) -> None:
    health, raw = Health(), thermal_message(grey_image())
    reader = ImageReader(ImageConfig(**values), health)
    for _ in range(3):
        reader.read(raw)
    assert told in notes(health)["image_levels"]
    assert reader.read(grey_image()).max() > 200  # 8 bits stay as they are, and are not judged
    assert "image_levels" in notes(health)


def test_what_was_told_of_a_closed_shutter_is_withdrawn() -> None:
    health = Health()
    reader = ImageReader(ImageConfig(image_values=(7000.0, 8020.0)), health)
    closed = thermal_message(grey_image())
    closed.data = bytes(len(closed.data))
    reader.read(closed)
    assert "image_levels" in notes(health)
    reader.read(thermal_message(grey_image()))
    assert notes(health).keys() >= {"image_values"} and "image_levels" not in notes(health)
    reader.read(closed)
    assert "image_levels" not in notes(health)


def test_a_picture_that_jpeg_has_cut_is_told_so() -> None:
    health = Health()
    message = compressed_message(Header(), np.full((8, 8, 3), 255, np.uint8))
    message.format = "mono16; jpeg compressed mono8"
    ImageReader(ImageConfig(), health).read(message)
    assert "JPEG keeps 8 bits: choose png" in notes(health)["image_levels"]
