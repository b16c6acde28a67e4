# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the launch files have in common; only they import it, since launch and launch_ros have no wheels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, SetEnvironmentVariable
from launch_ros.actions import Node

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.fast_dds import BY_LAUNCH_VARIABLE, PROFILES_VARIABLE, set_up_middleware
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

_SERVER_TOPICS = {"share_topic": "frame_shares", "shared_topic": "frame_shared"}  # as the server has them


def describe(file: str, arguments: Sequence[Argument], nodes: Callable[[Given], list[Node]]) -> LaunchDescription:
    """What ``ros2 launch`` runs.

    Args:
        file: the launch file, in its place beside the folder of parameters.
        arguments: that it has.
        nodes: makes the nodes from what the user gave.
    """

    def start(context: LaunchContext) -> list[Any]:
        if is_launched_itself(Path(file), sys.argv):  # else they are the arguments of the file that includes this one
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
    """Give processes of the launch that start from now on, cameras among them, shared memory that takes images."""
    if environment.get(PROFILES_VARIABLE):
        return []
    profiles = set_up_middleware(dict(environment), largest_buffer=0)  # 0: receiving over UDP is for our nodes only
    chosen = {PROFILES_VARIABLE: profiles, BY_LAUNCH_VARIABLE: "1"} if profiles else {}
    return [SetEnvironmentVariable(name, value) for name, value in chosen.items()]


def node(executable: str, given: Given, *, parameters: Mapping[str, Value] | None = None, **options: Any) -> Node:
    """A node of this package.

    Args:
        given: what the user gave.
        parameters: win over what the user gave.
        options: of the action.
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
    """Matching and inference, in one process or in two; of several cameras all in one."""
    topics = given.texts("image_topics")
    if topics:
        return [_cameras_node(given, [_full_name(given, topic) for topic in topics])]
    executables = ["cached_inference"] if given.flag("single_process") else ["matcher", "inference"]
    return [node(executable, given) for executable in executables]


def _cameras_node(given: Given, topics: Sequence[str]) -> Node:
    """One process with a node for each camera, which choose their names themselves; they reach the server all the same.

    Raises:
        ConfigError: they are asked to be in two processes.
    """
    if not given.flag("single_process"):
        raise ConfigError("image_topics and single_process:=false exclude each other: leave one of them out")
    camera_namespaces(topics)  # complains here, in the launch, where they are none
    to_server = {f"server.{name}": _full_name(given, topic) for name, topic in _SERVER_TOPICS.items()}
    return Node(
        package=PACKAGE,
        executable="cached_inference",
        parameters=[given.text("params_file"), {**to_server, **given.parameters}],
        arguments=["--cameras", *topics, *_ros_arguments("cached_inference", given)],
        output="screen",
    )


def _ros_arguments(executable: str, given: Given) -> list[str]:
    enclaves = given.text("enclaves").rstrip("/")
    enclave = ["--enclave", f"{enclaves}/{executable}"] if enclaves else []
    return ["--ros-args", "--log-level", given.text("log_level"), *enclave]


def _full_name(given: Given, topic: str) -> str:
    """The name of a topic in the launch's namespace."""
    namespace = given.text("namespace").strip("/")
    return topic if topic.startswith("/") else f"/{namespace}/{topic}" if namespace else f"/{topic}"
