# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The robot's half: matching and inference, in one process or in two."""

from cacheinf_ros.launch_arguments import ROBOT, USE_SERVER
from cacheinf_ros.nodes.launching import describe, robot_nodes
from launch import LaunchDescription

ARGUMENTS = (USE_SERVER.but(default="true"), *ROBOT)


def generate_launch_description() -> LaunchDescription:
    return describe(__file__, ARGUMENTS, robot_nodes)
