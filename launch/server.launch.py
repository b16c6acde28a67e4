# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server's half: computes its part of the frames that robots share with it."""

from cacheinf_ros.launch_arguments import SERVER
from cacheinf_ros.nodes.launching import describe, node
from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    return describe(__file__, SERVER, lambda given: [node("server", given)])
