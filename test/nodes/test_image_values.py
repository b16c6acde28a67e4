# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Nodes see what a thermal or depth camera sees once they are told which of its values are black and white."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.pipeline.node_configs import ImageConfig
from cacheinf_ros.pipeline.polling import wait_until

MS = 1_000_000
VALUES = [7000.0, 8020.0]  # four raw values for each level
DEADLINE_S = 60.0


def raw_image(grey: Any) -> Any:
    """Return the mono16 message of a mono8 message, as a camera with these values would send it."""
    from cacheinf_ros.nodes.conversions import byte_array

    levels = np.frombuffer(grey.data, np.uint8).astype("<u2")
    message = type(grey)(header=grey.header, height=grey.height, width=grey.width, encoding="mono16")
    message.step, message.data = 2 * grey.width, byte_array((7000 + 4 * levels).tobytes())
    return message


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0, 3.0], [5.0, 5.0], [0.0, float("nan")], [0.0, float("inf")]])
def test_values_that_are_none_are_refused_by_name(values: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"image_values = .*give"):
        ImageConfig.checked(image_values=values)


def test_raw_values_give_the_result_of_the_picture(rig: Any) -> None:
    node = rig.nodes.start(rig.command("cached_inference", mode="dense", outputs="all", image_values=VALUES))
    node.wait_ready()
    grey = [rig.image(number * 100 * MS, "mono8", seed=number) for number in (1, 2)]
    rig.station.wait_for_nodes(grey[0], subscribers=1)
    expected = [bytes(rig.station.answer(each).data) for each in grey]
    assert expected[0] != expected[1]
    assert [bytes(rig.station.answer(raw_image(each)).data) for each in grey] == expected
    assert wait_until(lambda: rig.station.said("cached_inference").get("image_values") == "7000..8020", DEADLINE_S)
    node.stop()


def test_a_picture_of_few_levels_is_told_with_the_remedy(rig: Any) -> None:
    node = rig.nodes.start(rig.command("cached_inference"))
    node.wait_ready()
    raw = raw_image(rig.image(100 * MS, "mono8"))
    rig.station.wait_for_nodes(raw, subscribers=1)
    assert not rig.station.answer(raw).error
    told = "the first image, 'mono16', has 5 of 256 grey levels: say which raw values are black and white"
    assert wait_until(lambda: told in rig.station.said("cached_inference").get("image_values", ""), DEADLINE_S)
    node.stop()


def test_maps_of_a_matcher_with_other_values_are_not_used(rig: Any) -> None:
    """By the upper byte nearly all of such a picture is the same, so that its maps would reuse what has changed."""
    matcher = NodeCommand(executable="matcher", parameters={"image_topic": "camera/image", "queue_size": 1000})
    nodes = [
        rig.nodes.start(rig.command("inference", image_values=VALUES, map_timeout_ms=300.0)),
        rig.nodes.start(matcher),
    ]
    for node in nodes:
        node.wait_ready()
    images = [raw_image(rig.image(number * 100 * MS, "mono8", seed=7)) for number in (1, 2, 3)]
    rig.station.wait_for_nodes(images[0], subscribers=2)
    assert all(rig.station.answer(image).reuse_ratio == 0 for image in images)
    assert wait_until(lambda: len(rig.station.maps) >= 3, DEADLINE_S)
    assert rig.station.maps[-1].reuse_ratio > 0.5
    assert wait_until(lambda: "start both nodes with the same" in nodes[0].output, DEADLINE_S)
