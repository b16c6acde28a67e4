# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node that knows its configurations."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from cacheinf_ros.config import Config
from cacheinf_ros.nodes.parameters import Parameters, current_name
from cacheinf_ros.parameter_names import what_became_of

_NAMED = 10  # of parameters that there are not: looking for what is meant takes time


class ConfiguredNode(Node):
    """Has the parameters of some configurations, and says what has become of those that it once had."""

    def __init__(self, name: str, *configs: type[Config], **options: Any) -> None:
        """``options``: of rclpy's Node."""
        Node.__init__(self, name, **options)
        self.parameters = Parameters(self, *configs)

    def set_parameters_atomically(self, parameter_list: list[Parameter[Any]]) -> SetParametersResult:
        """Set all of them or none; former names do, and one that there is not is refused with a reason."""
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
