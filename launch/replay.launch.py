# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A video, bag, folder or built-in scene in the place of a camera; its end ends the launch."""

from launch.actions import Shutdown
from launch_ros.actions import Node

from cacheinf_ros.launch_arguments import REPLAY, Given
from cacheinf_ros.nodes.launching import describe, node
from launch import LaunchDescription


def nodes(given: Given) -> list[Node]:
    return [node("replay", given, on_exit=Shutdown(reason="the source has ended"))]


def generate_launch_description() -> LaunchDescription:
    return describe(__file__, REPLAY, nodes)
