# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""An inference node that receives inconsistent cache maps still gives every frame its result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.pipeline.polling import wait_until

MS = 1_000_000
SIZE = (48, 64)
DEADLINE_S = 60.0


def test_bad_maps_cost_reuse_and_not_the_node(rig: Any) -> None:
    from cacheinf_ros.cache_map import CacheMap, Motion
    from cacheinf_ros.msg import CacheMap as CacheMapMessage
    from cacheinf_ros.nodes.conversions import cache_map_message
    from cacheinf_ros.nodes.topics import MAP_DEPTH, profile
    from cacheinf_ros.pipeline.map_chain import MapUpdate

    inference = rig.nodes.start(rig.command("inference", map_timeout_ms=1_000.0))
    maps = rig.station.node.create_publisher(CacheMapMessage, "cache_map", profile(MAP_DEPTH))
    inference.wait_ready()
    images = [rig.image(number * 100 * MS) for number in range(1, 6)]
    rig.station.wait_for_nodes(images[0], subscribers=1)
    assert wait_until(lambda: maps.get_subscription_count() == 2, DEADLINE_S)  # the node, and the station

    def publish_map(number: int, motion: np.ndarray) -> None:
        whole = CacheMap.of_blocks(np.ones((5, 7), np.bool_), SIZE, 10, Motion.none())
        stamp, before = number * 100 * MS, number - 1
        update = MapUpdate(
            session="a", sequence=number, reference_sequence=before, stamp_ns=stamp, cache_map=whole,
            reference_stamp_ns=before * 100 * MS,
        )  # fmt: skip
        message = cache_map_message(images[number - 1].header, update, (0.0, 0.0))
        message.motion = motion.ravel()
        maps.publish(message)

    still, nowhere = np.eye(3), np.zeros((3, 3))
    for number, motion in ((1, still), (2, still), (3, nowhere), (4, still), (5, nowhere)):
        publish_map(number, motion)
        if number != 2:  # the map of 2 is to be folded with that of 3
            rig.station.answer(images[number - 1])
    first, third, after, alone = rig.station.results
    assert not (first.error or third.error or after.error)
    assert (third.reuse_ratio, after.reuse_ratio) == (0.0, pytest.approx(1.0))
    assert alone.error or alone.reuse_ratio == 0.0
    assert wait_until(lambda: rig.station.said("inference").get("results") == "4", DEADLINE_S)
    assert int(rig.station.said("inference")["map_timeouts"]) == 2  # a map that is refused never comes
