# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of ROS parameters, which are the configurations' fields."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

from enum import Enum
from pathlib import Path

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from collections.abc import Iterator
from typing import Any

from rcl_interfaces.srv import ListParameters, SetParameters
from rclpy.parameter import Parameter

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.config import Config, parameter, setting, unlisted
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes.catalog_pipeline import CatalogPipeline
from cacheinf_ros.nodes.configured_node import ConfiguredNode
from cacheinf_ros.nodes.parameters import Parameters, describe
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.pipeline.node_configs import (
    AnswerConfig,
    ImageConfig,
    ModelConfig,
    ServerConfig,
    UseServerConfig,
    WatchConfig,
)
from cacheinf_ros.pipeline.polling import wait_until

TINY = f"{Path(__file__).parents[1] / 'networks' / 'tiny.py'}:tiny"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Paint(Config):
    colour: Colour = parameter(Colour.RED, "colour of the paint", live=True)
    layers: int = parameter(2, "layers of paint", low=1, high=5, live=True)
    litres: float = parameter(1.0, "amount, litres", low=0.0, live=True)
    brand: str = parameter("any", "who made it")
    recipe: str = unlisted("secret", "what is in it")
    formula: str = setting("CaCO3", "what only the laboratory changes")


def test_a_descriptor_says_what_the_field_says() -> None:
    fields = {each.name: each for each in Paint.declarations()}
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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_size", 480, "480 is no string: give one, for example '480x640'"),
        ("weights", 7, "7 is no string: give one, for example '7'"),
        ("model", 5, "5 is no string: give one, for example 'scenenet'"),
    ],
)
def test_numbers_for_texts_are_refused_with_an_example(context: Any, name: str, value: Any, message: str) -> None:
    overrides = [Parameter(name, value=value)]
    node = rclpy.create_node("painter", context=context, parameter_overrides=overrides)
    with pytest.raises(ConfigError, match=f"parameter {name}: {message}"):
        Parameters(node, ModelConfig)


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


def test_arrays_of_whole_numbers_are_taken_for_floats(context: Any) -> None:
    """``ros2 param set painter region "[0, 0, 1, 1]"`` sends integers, and so does such a line in a file."""
    overrides = [Parameter("region", value=[0, 0, 1, 2]), Parameter("image_values", value=[7000, 9000])]
    node = rclpy.create_node("painter", context=context, parameter_overrides=overrides)
    parameters = Parameters(node, AnswerConfig, ImageConfig)
    assert tuple(parameters.get(AnswerConfig).region) == (0.0, 0.0, 1.0, 2.0)
    assert parameters.get(ImageConfig).image_values == (7000.0, 9000.0)
    request = SetParameters.Request(parameters=[Parameter("region", value=[0, 0, 1, 1]).to_parameter_msg()])
    (answer,) = node._parameter_service._set_parameters_callback(request, SetParameters.Response()).results
    assert answer.successful, answer.reason
    assert tuple(parameters.get(AnswerConfig).region) == (0.0, 0.0, 1.0, 1.0)
    assert node.get_parameter("region").type_ is Parameter.Type.DOUBLE_ARRAY


@pytest.mark.parametrize("value", [7000, [1.0], ["a", "b"]])
def test_no_range_of_values_is_refused_with_an_example(context: Any, value: Any) -> None:
    node = rclpy.create_node("painter", context=context, parameter_overrides=[Parameter("image_values", value=value)])
    with pytest.raises(ConfigError, match=r"image_values.* give .*\[7000\.0, 9000\.0\]"):
        Parameters(node, ImageConfig)


def test_what_can_be_tuned_comes_first(context: Any) -> None:
    node = rclpy.create_node("painter", context=context)
    Parameters(node, Paint)
    names = [name for name in node._parameters if name in Paint.model_fields]
    assert names == ["colour", "layers", "litres", "brand"]


@pytest.mark.parametrize("config", [EngineConfig, MatchingConfig, WatchConfig, ServerConfig])
def test_sliders_are_tools(config: type[Config]) -> None:
    """A slider has a hundred positions: a range far beyond the default leaves none that is of use."""
    for each in config.declarations():
        descriptor = describe(each)
        for bounds in (*descriptor.floating_point_range, *descriptor.integer_range):
            if not descriptor.read_only and each.info.default:
                assert bounds.to_value <= 20 * each.info.default, each.name


def test_what_nobody_needs_is_declared_where_it_was_given(context: Any) -> None:
    node = rclpy.create_node("painter", context=context)
    assert Parameters(node, Paint).get(Paint).recipe == "secret"
    assert not node.has_parameter("recipe")
    node = rclpy.create_node("painter", context=context, parameter_overrides=[Parameter("recipe", value="ours")])
    assert Parameters(node, Paint).get(Paint).recipe == "ours"
    assert node.has_parameter("recipe")


def test_a_setting_is_no_parameter(context: Any) -> None:
    node = rclpy.create_node("painter", context=context, parameter_overrides=[Parameter("formula", value="H2O")])
    assert Parameters(node, Paint).get(Paint) == Paint()
    assert not node.has_parameter("formula")


def robot(*given: str) -> ConfiguredNode:
    """Create a node in the default context that has a robot's server parameters, started with these words."""
    rclpy.init(args=["--ros-args", *(word for each in given for word in ("-p", each))])
    return ConfiguredNode("robot", UseServerConfig, WatchConfig, EngineConfig, ImageConfig)


@pytest.fixture
def _ended() -> Iterator[None]:
    yield
    rclpy.try_shutdown()


@pytest.mark.usefixtures("_ended")
def test_what_is_about_a_server_is_there_where_one_is_used() -> None:
    node = robot()
    assert not node.has_parameter("server.policy")
    answer = node.set_parameters_atomically([Parameter("server.policy", value="local")])
    assert (answer.successful, answer.reason) == (
        False, "server.policy has no effect here: start the node with server.use: true",
    )  # fmt: skip
    rclpy.try_shutdown()
    assert robot("server.use:=true", "server.policy:=remote").get_parameter("server.policy").value == "remote"


@pytest.mark.usefixtures("_ended")
def test_former_and_unknown_names_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    node = robot("use_server:=true", "offload_policy:=local", "cache_map_topic:=m", "trheads:=1", "matcher:=identity")
    assert node.parameters.get(UseServerConfig).use_server
    assert node.get_parameter("server.policy").value == "local"
    (told,) = (line for line in capfd.readouterr().err.splitlines() if "WARN" in line)
    for part in (
        "'use_server' is now 'server.use'",
        "'offload_policy' is now 'server.policy'",
        "'cache_map_topic' is gone: remap",
        "'trheads' is unknown (did you mean 'threads'?)",
    ):
        assert part in told
    assert "matcher" not in told  # another node's


@pytest.mark.usefixtures("_ended")
def test_what_there_is_now_wins_over_its_former_name() -> None:
    assert robot("max_robots:=3", "server.use:=false", "use_server:=true").get_parameter("server.use").value is False


@pytest.mark.usefixtures("_ended")
@pytest.mark.parametrize("given", ["use_server:=maybe", "server.use:=3"])
def test_what_is_of_another_type_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"parameter server\.use: .* is no bool: give one, for example False"):
        robot(given)


@pytest.mark.usefixtures("_ended")
def test_names_while_the_node_runs() -> None:
    node = robot()

    def refusal(name: str, value: Any) -> str:
        answer = node.set_parameters_atomically([Parameter(name, value=value)])
        return "" if answer.successful else answer.reason

    assert refusal("latency_budget_ms", 100.0) == ""
    assert node.parameters.get(WatchConfig).latency_budget_ms == 100.0
    assert "out of range" in refusal("latency_budget_ms", -1.0)
    assert refusal("queue_size", 2) == "queue_size is set when the node starts, with -p or in a YAML file"
    assert refusal("max_eror", 0.1) == "there is no parameter 'max_eror' (did you mean 'max_error'?)"
    assert "remap" in refusal("cache_map_topic", "m")


@pytest.mark.usefixtures("_ended")
def test_policies_of_a_topic_are_parameters_where_they_were_given() -> None:
    from std_msgs.msg import Header

    node = robot("qos_overrides./a.publisher.depth:=7")
    depths = [publish_on(node, Header, topic, profile(2)).qos_profile.depth for topic in ("a", "b")]
    assert depths == [7, 2]
    assert [name for name in node._parameters if name.startswith("qos")] == ["qos_overrides./a.publisher.depth"]


@pytest.mark.usefixtures("_ended")
def test_a_policy_that_is_none_is_refused() -> None:
    """rclpy raises a RuntimeError for it, which ended the process with a traceback."""
    from std_msgs.msg import Header

    node = robot(
        "qos_overrides./a.publisher.durability:=latched", "qos_overrides./b.publisher.reliability:=Best_Effort"
    )
    with pytest.raises(ConfigError, match=r"durability: 'latched' is none of .*transient_local, volatile"):
        publish_on(node, Header, "a", profile(2))
    assert publish_on(node, Header, "b", profile(2)).qos_profile.reliability.name == "BEST_EFFORT"


@pytest.mark.parametrize(
    ("executable", "given", "most"),
    [
        ("cached_inference", {}, 30),
        ("cached_inference", {"server.use": True}, 30),
        ("inference", {}, 30),
        ("matcher", {}, 20),
        ("server", {}, 30),
        ("replay", {"source": "scene:fixed", "wait_for_subscribers": 9}, 20),
    ],
)
def test_a_list_of_parameters_fits_on_a_screen(
    nodes: NodeGroup, station: Any, executable: str, given: dict[str, Any], most: int
) -> None:
    model = {"model": TINY, "threads": 1} if executable not in ("matcher", "replay") else {}
    process = nodes.start(NodeCommand(executable=executable, parameters={**model, **given}))
    process.wait_ready(60.0)
    client = station.node.create_client(ListParameters, f"{executable}/list_parameters")
    assert client.wait_for_service(60.0)
    future = client.call_async(ListParameters.Request())
    assert wait_until(future.done, 20.0)
    names = sorted(future.result().result.names)
    station.call(lambda: station.node.destroy_client(client))
    process.stop()
    assert "parameters:" not in process.output
    assert len(names) <= most, names
    assert {name.partition(".")[0] for name in names if "." in name} <= {"server", "cache", "energy", "diagnostics"}


@pytest.mark.parametrize(("given", "most"), [([], 35), ([Parameter("server.use", value=True)], 35)])
def test_so_does_that_of_the_node_with_catalogs(context: Any, given: list[Any], most: int) -> None:
    node = rclpy.create_node("catalog_inference", context=context, parameter_overrides=given)
    Parameters(node, CatalogConfig, ImageConfig, *CatalogPipeline.CONFIGS, WatchConfig)
    assert len(node._parameters) <= most, sorted(node._parameters)
