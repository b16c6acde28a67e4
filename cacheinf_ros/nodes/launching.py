# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the launch files share; only they import it, since launch and launch_ros have no wheels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, SetEnvironmentVariable
from launch_ros.actions import Node

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.fast_dds import (
    BY_LAUNCH_VARIABLE,
    DATA_PORT_VARIABLE,
    PROFILES_VARIABLE,
    USUAL_DATA_PORT,
    set_up_middleware,
)
from cacheinf_ros.launch_arguments import (
    PACKAGE,
    Argument,
    Given,
    Value,
    camera_namespaces,
    is_launched_itself,
    refuse_unknown,
    say_former,
)
from launch import LaunchContext, LaunchDescription

_BOTH: Mapping[str, Value] = {
    "image_topic": "side_by_side/image", "image_transport": "raw", "image_values": [0.0, 0.0], "voxels": ""
}  # fmt: skip
_SERVER_TOPICS = {"share_topic": "frame_shares", "shared_topic": "frame_shared"}  # the defaults of the server


def describe(file: str, arguments: Sequence[Argument], nodes: Callable[[Given], list[Node]]) -> LaunchDescription:
    """Return what ``ros2 launch`` runs.

    Args:
        file: the launch file, which lies in the folder beside that of the parameters.
        arguments: the arguments of the launch file.
        nodes: makes the nodes from what the user gave.
    """

    def start(context: LaunchContext) -> list[Any]:
        if is_launched_itself(Path(file), sys.argv):  # otherwise they belong to the file that includes this one
            refuse_unknown(arguments, context.argv)
        given = context.launch_configurations
        told = [LogInfo(msg=line) for line in say_former(arguments, given)]
        return [*told, *set_middleware(context.environment), *nodes(Given(arguments, given))]

    params_file = Path(file).parents[1] / "config" / "cacheinf.yaml"
    defaults = {"params_file": str(params_file)}
    declared = [
        DeclareLaunchArgument(each.name, default_value=defaults.get(each.name, each.default), description=each.help)
        for each in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def set_middleware(environment: Mapping[str, str]) -> list[SetEnvironmentVariable]:
    """Give the processes that the launch starts from now on, cameras included, shared memory that holds images."""
    if environment.get(PROFILES_VARIABLE):
        return []
    profiles = set_up_middleware(dict(environment), largest_buffer=0)  # 0: UDP reception is for our nodes only
    if not profiles:
        return []
    # our nodes choose ports of their own; in other processes Fast DDS would complain about a missing variable
    chosen = {PROFILES_VARIABLE: profiles, BY_LAUNCH_VARIABLE: "1", DATA_PORT_VARIABLE: str(USUAL_DATA_PORT)}
    return [SetEnvironmentVariable(name, value) for name, value in chosen.items()]


def node(executable: str, given: Given, *, parameters: Mapping[str, Value] | None = None, **options: Any) -> Node:
    """Return a launch action for a node of this package.

    Args:
        given: what the user gave.
        executable: the executable, which also names the node.
        parameters: parameters that override what the user gave.
        options: passed to the launch action.
    """
    return Node(
        package=PACKAGE,
        executable=executable,
        name=executable,
        namespace=given.text("namespace"),
        parameters=[given.text("params_file"), {**given.parameters, **(parameters or {})}],
        arguments=_ros_arguments(executable, given),
        output="screen",
        **options,
    )


def robot_nodes(given: Given) -> list[Node]:
    """Return the nodes for matching and inference, in one process or two; several cameras share one process.

    Where a right camera is named, they take what one more node shows side by side.
    """
    topics = given.texts("image_topics")
    has_right = bool(given.text("right.image_topic"))
    lone = [name for name in ("right.image_transport", "right.image_values") if given.text(name) and not has_right]
    if lone:
        raise ConfigError(f"{lone[0]} is of no use without right.image_topic, which starts the node side_by_side")
    if given.text("voxels") and has_right:
        raise ConfigError("voxels and right.image_topic exclude each other: clouds of points have no right camera")
    if topics and has_right:
        raise ConfigError("image_topics and right.image_topic exclude each other: start a launch for each pair")
    if topics:
        return [_cameras_node(given, [_full_name(given, topic) for topic in topics])]
    executables = ["cached_inference"] if given.flag("single_process") else ["matcher", "inference"]
    beside = [node("side_by_side", given)] if has_right else []
    return [*beside, *(node(executable, given, parameters=_BOTH if has_right else None) for executable in executables)]


def _cameras_node(given: Given, topics: Sequence[str]) -> Node:
    """Return one process with a node for each camera.

    The nodes choose their names themselves, and are told where the server is, unless params_file says it.

    Raises:
        ConfigError: the user asked for two processes.
    """
    if not given.flag("single_process"):
        raise ConfigError("image_topics and single_process:=false exclude each other: leave one of them out")
    camera_namespaces(topics)  # raises here, in the launch, where topics yield no namespaces
    to_server = {f"server.{name}": _full_name(given, topic) for name, topic in _SERVER_TOPICS.items()}
    return Node(
        package=PACKAGE,
        executable="cached_inference",
        parameters=[to_server, given.text("params_file"), given.parameters],
        arguments=["--cameras", *topics, *_ros_arguments("cached_inference", given)],
        output="screen",
    )


def _ros_arguments(executable: str, given: Given) -> list[str]:
    enclaves = given.text("enclaves").rstrip("/")
    enclave = ["--enclave", f"{enclaves}/{executable}"] if enclaves else []
    return ["--ros-args", "--log-level", given.text("log_level"), *enclave]


def _full_name(given: Given, topic: str) -> str:
    """Return the full name of a topic in the launch's namespace."""
    namespace = given.text("namespace").strip("/")
    return topic if topic.startswith("/") else f"/{namespace}/{topic}" if namespace else f"/{topic}"
