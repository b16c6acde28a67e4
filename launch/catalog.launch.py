# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Many models under a budget: the robot's node, and with ``server:=true`` the server on this machine too."""

from launch_ros.actions import Node

from cacheinf_ros.launch_arguments import CATALOG, Given
from cacheinf_ros.nodes.launching import describe, node
from launch import LaunchDescription


def nodes(given: Given) -> list[Node]:
    if not given.flag("server"):
        return [node("catalog_inference", given)]
    return [node("catalog_inference", given, parameters={"server.use": True}), node("server", given)]


def generate_launch_description() -> LaunchDescription:
    return describe(__file__, CATALOG, nodes)
