# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of what ``ros2 launch`` starts; those that need launch itself are skipped where it is missing.

``scripts/ros2_tools`` builds it.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import pytest
import yaml

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogBudgetConfig, CatalogConfig
from cacheinf_ros.config import Config
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.fast_dds import PROFILES_VARIABLE
from cacheinf_ros.launch_arguments import (
    CATALOG,
    REPLAY,
    ROBOT,
    SERVER,
    START_SERVER,
    Argument,
    Given,
    camera_namespaces,
    is_launched_itself,
    refuse_unknown,
    say_former,
)
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.pipeline.node_configs import (
    ImageConfig,
    LifecycleConfig,
    ModelConfig,
    ReplayConfig,
    ResultConfig,
    RightImageConfig,
    UseServerConfig,
)

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "launch").glob("*.launch.py"))
YAML = ROOT / "config" / "cacheinf.yaml"
CONFIGS = (
    MatchingConfig, EngineConfig, ModelConfig, ResultConfig, UseServerConfig, ImageConfig, RightImageConfig,
    LifecycleConfig,
)  # fmt: skip
ARGUMENTS = {"robot": (START_SERVER, *ROBOT), "server": SERVER, "catalog": CATALOG, "replay": REPLAY}

# not "launch": our folder of that name can be imported too
needs_launch = pytest.mark.skipif(
    find_spec("launch_ros") is None,
    reason="launch and launch_ros have no wheels: needs a ROS distribution, or what scripts/ros2_tools builds",
)


def in_yaml(node: str) -> dict[str, Any]:
    parameters: dict[str, Any] = yaml.safe_load(YAML.read_text())[node]["ros__parameters"]
    return parameters


def fields(*configs: type[Config]) -> dict[str, Any]:
    return {each.name: each.info for config in configs for each in config.declarations()}


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def test_the_parameters_for_all_nodes_are_the_defaults() -> None:
    defaults = fields(MatchingConfig, EngineConfig)
    written = in_yaml("/**")
    assert set(written) == {"threshold", "block_size", "expiry", "mode", "max_loss", "matcher"}
    assert written.pop("mode") == "bounded"  # the engine alone is exact
    for name, value in written.items():
        assert (value, type(value)) == (plain(defaults[name].default), type(plain(defaults[name].default)))


def test_what_is_written_for_replay_are_parameters_of_it() -> None:
    assert set(in_yaml("/**/replay")) <= set(ReplayConfig.model_fields)


def test_cameras_and_nodes_meet_on_one_topic_by_default() -> None:
    assert ReplayConfig().image_topic == ImageConfig().image_topic
    assert "image_topic" not in in_yaml("/**")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_launch_file_is_python_with_the_entry_point(file: Path) -> None:
    tree = ast.parse(file.read_text())
    assert "generate_launch_description" in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


@pytest.mark.parametrize("nodes", ARGUMENTS)
def test_arguments_are_parameters_with_their_types_and_choices(nodes: str) -> None:
    """Arguments are checked here because launch files write them out: importing the configurations takes seconds."""
    declared = fields(
        *{"catalog": (*CONFIGS, CatalogConfig, CatalogBudgetConfig), "replay": (ReplayConfig,)}.get(nodes, CONFIGS)
    )
    declared |= fields(CatalogConfig) if nodes == "server" else {}
    for argument in ARGUMENTS[nodes]:
        if argument.is_parameter and argument.name != "use_sim_time":  # that one is rclpy's
            info = declared[argument.name]
            assert_agrees(argument, info.annotation)
            assert argument is START_SERVER or argument.description == info.description
            assert argument.value(argument.nodes_default) == argument.value(text_of(info.default))
            assert (argument.otherwise or argument.nodes_default) in argument.help


def text_of(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(plain(default))


@pytest.mark.parametrize("nodes", ARGUMENTS)
def test_each_argument_is_there_once(nodes: str) -> None:
    names = [argument.name for argument in ARGUMENTS[nodes]]
    assert len(set(names)) == len(names)


def assert_agrees(argument: Argument, expected: Any) -> None:
    if issubclass(get_args(expected)[0] if get_args(expected) else expected, Enum):
        assert type(argument.value("anything")) is str
        if "see docs" not in argument.description:
            assert all(choice.value in argument.description for choice in expected), argument
        return
    text = {bool: "true", int: "2", float: "2", str: "2"}[get_args(expected)[0] if get_args(expected) else expected]
    value = argument.value(text)
    if get_args(expected):  # tuple[float, ...]
        assert isinstance(value, list)
        assert type(value[0]) is get_args(expected)[0], argument
    else:
        assert type(value) is expected, argument


def test_only_what_was_given_overrides_the_file() -> None:
    assert Given(ROBOT, {"threshold": "25", "model": "", "log_level": "info"}).parameters == {"threshold": 25.0}
    assert not Given(ROBOT, {}).parameters
    assert Given(ROBOT, {}).flag("single_process")
    assert not Given(ROBOT, {"single_process": "False"}).flag("single_process")


def test_lists_are_separated_by_commas() -> None:
    given = Given(CATALOG, {"catalogs": "a, b/c,", "rates": "5,0.5", "energy_budget_j": "inf"}).parameters
    assert given == {"catalogs": ["a", "b/c"], "rates": [5.0, 0.5], "energy_budget_j": float("inf")}


@pytest.mark.parametrize(
    ("topics", "namespaces"),
    [
        (["/front/image_raw", "/rear/left/image_raw"], ["/front", "/rear/left"]),
        (["/images/front", "/images/left", "/right/image"], ["/images/front", "/images/left", "/right"]),
        (["/front", "/left"], ["/front", "/left"]),
        (["/image", "/image/left"], ["/image", "/image/left"]),
        (["/a/image", "/a/depth", "/a/image/rect"], ["/a/image", "/a/depth", "/a/image/rect"]),
    ],
)
def test_each_camera_has_a_namespace(topics: list[str], namespaces: list[str]) -> None:
    assert camera_namespaces(topics) == namespaces


@pytest.mark.parametrize("topics", [["front/image"], ["/front/image", "/front/image"]])
def test_cameras_that_cannot_be_told_apart_are_refused(topics: list[str]) -> None:
    with pytest.raises(ConfigError, match="full names"):
        camera_namespaces(topics)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({"threshold": "high"}, "a number"), ({"block_size": "8.5"}, "a whole number"), ({"server.use": "flase"}, "true")],
)
def test_a_value_that_means_nothing_is_refused(given: dict[str, str], wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        Given((START_SERVER, *ROBOT), given)


def test_an_unknown_argument_is_refused_with_those_that_there_are() -> None:
    refuse_unknown(ROBOT, ["threshold:=20", "launch-prefix:=nice", "sigterm_timeout:=3"])
    with pytest.raises(ConfigError, match=r"'treshold' \(did you mean 'threshold'\?\).*block_size.*weights"):
        refuse_unknown(ROBOT, ["treshold:=20", "mode:=exact"])


def test_a_former_argument_is_told() -> None:
    robot = (START_SERVER, *ROBOT)
    with pytest.raises(ConfigError, match=r"launch argument 'use_server' is now 'server\.use'"):
        refuse_unknown(robot, ["use_server:=true"])
    includers = ["offload_policy", "threads", "cache"]  # the last was never an argument
    assert say_former(robot, includers) == ["launch argument 'offload_policy' is now 'server.policy'"]


def test_arguments_of_a_file_that_includes_ours_are_its_own(tmp_path: Path) -> None:
    ours, theirs = ROOT / "launch" / "robot.launch.py", tmp_path / "robot.launch.py"
    theirs.touch()
    assert is_launched_itself(ours, ["ros2", "launch", "cacheinf_ros", "robot.launch.py", "x:=1"])
    assert is_launched_itself(ours, ["ros2", "launch", str(ours)])
    assert not is_launched_itself(ours, ["ros2", "launch", "their_robot", "robot.launch.py"])
    assert not is_launched_itself(ours, ["ros2", "launch", str(theirs)])


@pytest.fixture(autouse=True)
def _nothing_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redirect temporary files: launch_ros writes parameters into some, and leaves them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process that a launch would start.

    Attributes:
        node: the node's name and namespace.
        files: the parameter files that were named.
        parameters: the parameters given on top of those files.
        words: the words of the command line.
    """

    node: str
    words: list[str]
    files: list[str]
    parameters: dict[str, Any]


def launched(file: Path, *given: str, environment: dict[str, str] | None = None) -> tuple[dict[str, Started], Any]:
    """Return the processes of a launch, by executable, and their environment; nothing is started."""
    from launch.actions import IncludeLaunchDescription
    from launch.launch_description_sources import PythonLaunchDescriptionSource
    from launch_ros.actions import Node

    from launch import LaunchContext

    arguments = [tuple(word.split(":=")) for word in given]
    pending: list[Any] = [
        IncludeLaunchDescription(PythonLaunchDescriptionSource(str(file)), launch_arguments=arguments)
    ]
    nodes = {}
    command_line = ["ros2", "launch", str(file), *given]
    with mock.patch.object(sys, "argv", command_line), mock.patch.dict(os.environ, environment or {}):
        context = LaunchContext(argv=list(given))
        while pending:
            entity = pending.pop(0)
            if isinstance(entity, Node):
                entity._perform_substitutions(context)  # what it does before it starts
                nodes[entity.node_executable] = started(entity, context)
            else:
                pending[:0] = entity.visit(context) or []
        return nodes, dict(os.environ)


def started(node: Any, context: Any) -> Started:
    from launch.substitutions import LocalSubstitution
    from launch.utilities import perform_substitutions

    known = [part for part in node.cmd if not isinstance(part[0], LocalSubstitution)]  # the others follow at the start
    words = [perform_substitutions(context, part) for part in known]
    files = [words[i + 1] for i, word in enumerate(words) if word == "--params-file"]
    made = [file for file in files if "/launch_params_" in file]
    parameters: dict[str, Any] = {}
    for file in made:
        (of_node,) = yaml.full_load(Path(file).read_text()).values()  # launch_ros writes tuples
        parameters |= of_node["ros__parameters"]
    return Started(
        node=node.node_name, words=words, files=[file for file in files if file not in made], parameters=parameters
    )


def launch_file(name: str) -> Path:
    return ROOT / "launch" / f"{name}.launch.py"


@needs_launch
@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("cacheinf", [], {"cached_inference": {}}),
        ("cacheinf", ["single_process:=false"], {"matcher": {}, "inference": {}}),
        ("cacheinf", ["server.use:=true"], {"cached_inference": {"server.use": True}, "server": {"server.use": True}}),
        ("robot", [], {"cached_inference": {"server.use": True}}),
        ("robot", ["server.use:=0", "threads:=1"], {"cached_inference": {"server.use": False, "threads": 1}}),
        ("server", ["model:=m", "catalogs:=a,b"], {"server": {"model": "m", "catalogs": ("a", "b")}}),
        ("replay", [], {"replay": {}}),
        ("replay", ["loop:=true", "rate:=5"], {"replay": {"loop": True, "rate": 5.0}}),
        ("catalog", ["rates:=5,1"], {"catalog_inference": {"rates": (5.0, 1.0)}}),
        ("catalog", ["server:=true"], {"catalog_inference": {"server.use": True}, "server": {}}),
    ],
)
def test_processes_and_what_overrides_their_file(
    name: str, given: list[str], expected: dict[str, dict[str, Any]]
) -> None:
    processes, _ = launched(launch_file(name), *given)
    assert {executable: process.parameters for executable, process in processes.items()} == expected
    assert all(process.files == [str(YAML)] for process in processes.values())


@needs_launch
def test_several_cameras_are_one_process_that_reaches_the_server() -> None:
    given = ["image_topics:=/front/image_raw,left/image_raw", "server.use:=true", "namespace:=robot"]
    processes, _ = launched(launch_file("cacheinf"), *given)
    assert set(processes) == {"cached_inference", "server"}
    assert processes["cached_inference"].parameters == {
        "server.use": True, "server.share_topic": "/robot/frame_shares", "server.shared_topic": "/robot/frame_shared",
    }  # fmt: skip
    words = processes["cached_inference"].words
    assert words[words.index("--cameras") + 1 : words.index("--ros-args")] == [
        "/front/image_raw",
        "/robot/left/image_raw",
    ]
    files = [word for word in words if word == str(YAML) or "/launch_params_" in word]
    of_launch, of_user, of_command_line = files  # later ones count
    assert of_user == str(YAML), "server.share_topic of params_file counts more than where the launch has the server"
    assert "frame_shares" in Path(of_launch).read_text() and "server.use" in Path(of_command_line).read_text()
    with pytest.raises(ConfigError, match="exclude each other"):
        launched(launch_file("cacheinf"), given[0], "single_process:=false")


@needs_launch
def test_a_right_camera_is_shown_beside_the_left_one() -> None:
    given = ["image_topic:=/left/image", "right.image_topic:=/right/image", "right.image_values:=300,8000"]
    processes, _ = launched(launch_file("cacheinf"), *given, "image_values:=7000,9000")
    assert list(processes) == ["side_by_side", "cached_inference"]
    shown, taken = (processes[name].parameters for name in processes)
    assert (shown["image_topic"], shown["right.image_topic"]) == ("/left/image", "/right/image")
    values = [tuple(shown[name]) for name in ("image_values", "right.image_values")]
    assert values == [(7000.0, 9000.0), (300.0, 8000.0)]
    assert (taken["image_topic"], taken["image_transport"]) == ("side_by_side/image", "raw")
    assert tuple(taken["image_values"]) == (0.0, 0.0)
    for alone in (given[2], "right.image_transport:=compressed"):
        with pytest.raises(ConfigError, match=r"of no use without right\.image_topic"):
            launched(launch_file("cacheinf"), alone)
    with pytest.raises(ConfigError, match="exclude each other"):
        launched(launch_file("cacheinf"), given[1], "image_topics:=/a/image,/b/image")
    voxels = "voxels:=4x3x2, 0..4, -1..2, 0..2"
    with pytest.raises(ConfigError, match=r"voxels and right\.image_topic exclude each other"):
        launched(launch_file("cacheinf"), given[1], voxels)
    processes, _ = launched(launch_file("cacheinf"), voxels)
    assert processes["cached_inference"].parameters["voxels"] == voxels.removeprefix("voxels:=")


@needs_launch
@pytest.mark.parametrize(
    ("name", "given", "executables"),
    [
        ("cacheinf", ["single_process:=false", "server.use:=true"], ["matcher", "inference", "server"]),
        ("robot", ["image_topics:=/front/image_raw,/rear/image_raw"], ["cached_inference"]),
        ("catalog", ["server:=true"], ["catalog_inference", "server"]),
        ("replay", [], ["replay"]),
    ],
)
def test_each_process_has_its_enclave_where_one_is_asked_for(
    name: str, given: list[str], executables: list[str]
) -> None:
    without, _ = launched(launch_file(name), *given)
    assert not any("--enclave" in process.words for process in without.values())
    processes, _ = launched(launch_file(name), *given, "enclaves:=/robot1/")
    assert list(processes) == executables
    for executable, process in processes.items():
        ros = process.words[process.words.index("--ros-args") :]
        assert ros[ros.index("--enclave") + 1] == f"/robot1/{executable}"


@needs_launch
def test_parameters_keep_their_types_on_the_way() -> None:
    given = ["threshold:=25", "block_size:=8", "model:=1", "input_size:=480x640", "use_sim_time:=1", "max_error:=1e-3"]
    processes, _ = launched(launch_file("cacheinf"), *given, "namespace:=/robot1")
    assert processes["cached_inference"].node == "/robot1/cached_inference"
    assert processes["cached_inference"].parameters == {
        "threshold": 25.0, "block_size": 8, "model": "1", "input_size": "480x640", "use_sim_time": True,
        "max_error": 0.001,
    }  # fmt: skip


@needs_launch
def test_the_users_parameters_file_takes_the_place_of_ours(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("/**:\n  ros__parameters:\n    threshold: 30.0\n")
    processes, _ = launched(launch_file("cacheinf"), f"params_file:={own}")
    assert processes["cached_inference"].files == [str(own)]


@needs_launch
@pytest.mark.parametrize("name", [file.name.partition(".")[0] for file in FILES])
def test_no_launch_file_ignores_an_unknown_argument(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown launch argument 'nosuch'"):
        launched(launch_file(name), "nosuch:=1")


@needs_launch
def test_ros2_launch_says_what_is_wrong_and_fails() -> None:
    command = ["ros2", "launch", str(launch_file("cacheinf")), "treshold:=1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "did you mean 'threshold'?" in ended.stdout + ended.stderr


@needs_launch
def test_a_file_that_includes_ours_has_arguments_of_its_own(tmp_path: Path) -> None:
    including = tmp_path / "bringup.launch.py"
    including.write_text(
        "from launch import LaunchDescription\n"
        "from launch.actions import IncludeLaunchDescription\n"
        "from launch.launch_description_sources import PythonLaunchDescriptionSource as Source\n"
        "def generate_launch_description():\n"
        f"    ours = Source({str(launch_file('robot'))!r})\n"
        "    return LaunchDescription([IncludeLaunchDescription(ours, launch_arguments=[('threads', '1')])])\n"
    )
    processes, _ = launched(including, "camera:=left")
    assert processes["cached_inference"].parameters == {"threads": 1, "server.use": True}


WITHOUT = {name: "" for name in (PROFILES_VARIABLE, "FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_BUILTIN_TRANSPORTS")}
WITHOUT["RMW_IMPLEMENTATION"] = ""


@needs_launch
def test_all_processes_of_a_launch_get_shared_memory_that_takes_images() -> None:
    for file in FILES:
        _, environment = launched(file, environment=WITHOUT)
        assert environment[PROFILES_VARIABLE].endswith("share/cacheinf_ros/config/fastdds.xml")
        assert Path(environment[PROFILES_VARIABLE]).is_file()


@needs_launch
@pytest.mark.parametrize(
    "own",
    [
        {PROFILES_VARIABLE: "/own.xml"},
        {"FASTRTPS_DEFAULT_PROFILES_FILE": "/own.xml"},
        {"FASTDDS_BUILTIN_TRANSPORTS": "LARGE_DATA"},
        {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"},
    ],
)
def test_the_users_own_middleware_is_left_alone(own: dict[str, str]) -> None:
    _, environment = launched(launch_file("cacheinf"), environment=WITHOUT | own)
    assert {name: environment[name] for name in WITHOUT} == WITHOUT | own
