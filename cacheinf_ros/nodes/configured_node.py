# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node whose parameters come from configurations."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from cacheinf_ros.config import Config
from cacheinf_ros.nodes.parameters import Parameters, current_name
from cacheinf_ros.parameter_names import what_became_of

_NAMED = 10  # unknown parameters for which a similar name is looked up, which takes time


class ConfiguredNode(Node):
    """A node with the parameters of some configurations, which also accepts former names of parameters."""

    def __init__(self, name: str, *configs: type[Config], **options: Any) -> None:
        """Declare the parameters of ``configs``; ``options`` are passed to rclpy's Node."""
        Node.__init__(self, name, **options)
        self.parameters = Parameters(self, *configs)

    def set_parameters_atomically(self, parameter_list: list[Parameter[Any]]) -> SetParametersResult:
        """Set all parameters or none.

        Former names are accepted; a name that does not exist is refused with a reason.
        """
        wanted = [current_name(each) for each in parameter_list]
        missing = [each.name for each in wanted if not self.has_parameter(each.name)]
        if missing:
            return SetParametersResult(
                successful=False, reason="; ".join(map(self.parameters.why_not, missing[:_NAMED]))
            )
        for each in parameter_list:
            if not self.has_parameter(each.name):
                self.get_logger().warning(f"parameters: {what_became_of(each.name)}")
        return super().set_parameters_atomically(wanted)
