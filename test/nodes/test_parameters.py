# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ROS parameters are the configurations' fields."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

from enum import Enum

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from collections.abc import Iterator
from typing import Any

from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter

from cacheinf_ros.config import Config, parameter
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes.parameters import Parameters, describe
from cacheinf_ros.pipeline.node_configs import ServerConfig, WatchConfig


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Paint(Config):
    colour: Colour = parameter(Colour.RED, "colour of the paint", live=True)
    layers: int = parameter(2, "layers of paint", low=1, high=5, live=True)
    litres: float = parameter(1.0, "amount, litres", low=0.0, live=True)
    brand: str = parameter("any", "who made it")


@pytest.fixture
def context() -> Iterator[Any]:
    context = rclpy.Context()
    rclpy.init(context=context)
    yield context
    rclpy.try_shutdown(context=context)


def test_a_descriptor_says_what_the_field_says() -> None:
    fields = Paint.model_fields
    assert describe(fields["brand"]).read_only
    assert describe(fields["colour"]).additional_constraints == "one of: red, blue"
    assert (describe(fields["layers"]).integer_range[0].to_value, describe(fields["layers"]).read_only) == (5, False)
    litres = describe(fields["litres"]).floating_point_range[0]
    assert (litres.from_value, litres.to_value, litres.step) == (0.0, float("inf"), 0.0)


def test_live_values_are_checked_then_applied(context: Any) -> None:
    node = rclpy.create_node("painter", context=context)
    parameters = Parameters(node, Paint)
    before = parameters.get(Paint)
    rejected = node.set_parameters([Parameter("colour", value="loud")])[0]
    assert not rejected.successful
    assert "loud" in rejected.reason
    assert "red" in rejected.reason
    assert parameters.get(Paint) is before
    assert not node.set_parameters([Parameter("layers", value=9)])[0].successful
    assert not node.set_parameters([Parameter("brand", value="ours")])[0].successful
    assert node.set_parameters_atomically(
        [Parameter("colour", value="blue"), Parameter("litres", value=0.3)]
    ).successful
    assert parameters.get(Paint) == Paint(colour=Colour.BLUE, litres=0.3)


@pytest.mark.parametrize(("name", "value"), [("layers", "two"), ("layers", 0), ("colour", "loud")])
def test_unusable_values_at_the_start_are_refused(context: Any, name: str, value: Any) -> None:
    overrides = [Parameter(name, value=value)]
    node = rclpy.create_node("painter", context=context, parameter_overrides=overrides)
    with pytest.raises(ConfigError, match=name):
        Parameters(node, Paint)


def test_whole_numbers_are_taken_for_floats(context: Any) -> None:
    """``ros2 param set painter litres 5`` sends an integer, and so does a file with ``litres: 5``."""
    node = rclpy.create_node("painter", context=context, parameter_overrides=[Parameter("litres", value=3)])
    parameters = Parameters(node, Paint)
    assert parameters.get(Paint).litres == 3.0
    request = SetParameters.Request(parameters=[Parameter("litres", value=5).to_parameter_msg()])
    (answer,) = node._parameter_service._set_parameters_callback(request, SetParameters.Response()).results
    assert answer.successful, answer.reason
    assert parameters.get(Paint).litres == 5.0
    assert node.get_parameter("litres").type_ is Parameter.Type.DOUBLE


def test_what_can_be_tuned_comes_first(context: Any) -> None:
    node = rclpy.create_node("painter", context=context)
    Parameters(node, Paint)
    names = [name for name in node._parameters if name in Paint.model_fields]
    assert names == ["colour", "layers", "litres", "brand"]


@pytest.mark.parametrize("config", [EngineConfig, MatchingConfig, WatchConfig, ServerConfig])
def test_sliders_are_tools(config: type[Config]) -> None:
    """A slider has a hundred positions: a range far beyond the default leaves none that anybody wants."""
    for name, field in config.model_fields.items():
        descriptor = describe(field)
        for bounds in (*descriptor.floating_point_range, *descriptor.integer_range):
            if not descriptor.read_only and field.default:
                assert bounds.to_value <= 20 * field.default, name
