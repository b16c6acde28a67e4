# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Everything on one machine: matching and inference, and with ``server.use:=true`` the server."""

from launch_ros.actions import Node

from cacheinf_ros.launch_arguments import ROBOT, START_SERVER, Given
from cacheinf_ros.nodes.launching import describe, node, robot_nodes
from launch import LaunchDescription


def nodes(given: Given) -> list[Node]:
    return [*robot_nodes(given), *([node("server", given)] if given.flag("server.use") else [])]


def generate_launch_description() -> LaunchDescription:
    return describe(__file__, (START_SERVER, *ROBOT), nodes)
