# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node can change what it reports while it runs, and refuses classes that its model does not know."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from typing import Any

from rclpy.parameter import Parameter

from cacheinf_ros.engine import Selection
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.nodes.live_selection import LiveSelection
from cacheinf_ros.nodes.parameters import Parameters
from cacheinf_ros.pipeline.node_configs import AnswerConfig

LABELS = ("person", "car")


def test_it_follows_the_parameters(context: Any) -> None:
    node = rclpy.create_node("seer", context=context)
    selection = LiveSelection(node, Parameters(node, AnswerConfig), LABELS)
    assert selection.current == Selection()
    assert node.set_parameters([Parameter("classes", value="car")])[0].successful
    assert selection.current == Selection(classes=frozenset({1}))
    answer = node.set_parameters([Parameter("classes", value="cra")])[0]
    assert not answer.successful and "near: car" in answer.reason
    assert not node.set_parameters([Parameter("region", value=[0.5, 0.0, 0.6, 1.0])])[0].successful
    assert node.set_parameters([Parameter("region", value=[0.5, 0.0, 0.5, 1.0])])[0].successful
    assert selection.current.region == (0.5, 0.0, 0.5, 1.0)
    assert node.set_parameters([Parameter("region", value=[0.0, 0.0, 1.0, 1.0])])[0].successful
    assert node.set_parameters([Parameter("score_threshold", value=0.5)])[0].successful
    assert selection.current == Selection(classes=frozenset({1}), score_threshold=0.5)


def test_an_unknown_class_at_the_start_is_refused(context: Any) -> None:
    node = rclpy.create_node("seer", context=context, parameter_overrides=[Parameter("classes", value="cat")])
    with pytest.raises(ConfigError, match="near: car"):
        LiveSelection(node, Parameters(node, AnswerConfig), LABELS)
