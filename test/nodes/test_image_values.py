# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Nodes see what a thermal or depth camera sees once they are told which of its values are black and white."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from image_messages import thermal_message

from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.pipeline.polling import wait_until

MS = 1_000_000
VALUES = [7000.0, 8020.0]  # of thermal_message
DEADLINE_S = 60.0


def test_raw_values_give_the_result_of_the_picture(rig: Any) -> None:
    node = rig.nodes.start(rig.command("cached_inference", mode="dense", outputs="all", image_values=[7000, 8020]))
    node.wait_ready()
    grey = [rig.image(number * 100 * MS, "mono8", seed=number) for number in (1, 2)]
    rig.station.wait_for_nodes(grey[0], subscribers=1)
    expected = [bytes(rig.station.answer(each).data) for each in grey]
    assert expected[0] != expected[1]
    assert [bytes(rig.station.answer(thermal_message(each)).data) for each in grey] == expected
    assert wait_until(lambda: rig.station.said("cached_inference").get("image_values") == "7000..8020", DEADLINE_S)
    node.stop()


def test_few_levels_are_in_the_nodes_diagnostics(rig: Any) -> None:
    node = rig.nodes.start(rig.command("cached_inference"))
    node.wait_ready()
    raw = thermal_message(rig.image(100 * MS, "mono8"))
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
    images = [thermal_message(rig.image(number * 100 * MS, "mono8", seed=7)) for number in (1, 2, 3)]
    rig.station.wait_for_nodes(images[0], subscribers=2)
    reused = [rig.station.answer(image).reuse_ratio for image in images]
    assert wait_until(lambda: len(rig.station.maps) >= 3, DEADLINE_S)
    assert rig.station.maps[-1].reuse_ratio > 0.5
    assert (reused[-1] > 0.5) == bool(values)
    assert ("start both nodes with the same" in nodes[0].output) != bool(values)
    for node in nodes:
        node.stop()
