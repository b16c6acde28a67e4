# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which of a model's answers a node reports, while its parameters change."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from cacheinf_ros.config import CurrentConfigs
from cacheinf_ros.engine import Selection
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.pipeline.node_configs import AnswerConfig


class LiveSelection:
    """Follows ``score_threshold`` and ``classes``, and lets the node refuse classes that the model does not know.

    Attributes:
        current: what is reported now.
    """

    def __init__(self, node: Node, configs: CurrentConfigs, labels: tuple[str, ...]) -> None:
        """``labels``: names of the model's classes; :class:`ConfigError` where the user names others."""
        self._labels = labels
        self._config = configs.get(AnswerConfig)
        self.current = self._read()
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._apply)

    def _read(self) -> Selection:
        return Selection.of(self._config.score_threshold, self._config.classes, self._labels)

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        changed = {each.name: each.value for each in parameters if each.name in AnswerConfig.model_fields}
        if changed:  # not by way of the configurations: rclpy lets those know after this
            self._config = self._config.changed(**changed)
            self.current = self._read()

    def _check(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        wanted = [str(parameter.value) for parameter in parameters if parameter.name == "classes"]
        try:
            for classes in wanted:
                Selection.of(0.0, classes, self._labels)
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)
