# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""/diagnostics say ERROR where frames come in and no results go out, and where the thread that works is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from nodes.broken_node import IDLE, MORTAL

from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 30.0
ERROR = b"\x02"


@pytest.mark.parametrize(("name", "reason"), [(IDLE, "no result has gone out"), (MORTAL, "has ended")])
def test_a_node_that_answers_no_more_says_so(
    name: str, reason: str, nodes: NodeGroup, station: Any, camera_image: Callable[..., Any]
) -> None:
    parameters = {"diagnostics.stuck_after_s": 0.5, "image_topic": "camera/image", "image_reliability": "reliable"}
    environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
    node = nodes.start(
        NodeCommand(executable="nodes.broken_node", name=name, parameters=parameters, environment=environment)
    )
    assert wait_until(lambda: name in station.diagnostics, DEADLINE_S), node.output
    assert station.diagnostics[name].level != ERROR
    assert wait_until(lambda: station.camera(camera_image(0)).get_subscription_count() > 0, DEADLINE_S)

    def is_said() -> bool:
        station.publish(camera_image(10**12))
        return station.diagnostics[name].level == ERROR and reason in station.diagnostics[name].message

    assert wait_until(is_said, DEADLINE_S), station.diagnostics[name].message
    assert node.exit_code is None
