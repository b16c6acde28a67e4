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
    """Follows ``score_threshold`` and ``classes``, and lets the node refuse classes that the model does not know."""

    def __init__(self, node: Node, configs: CurrentConfigs, labels: tuple[str, ...]) -> None:
        """``labels``: names of the model's classes; :class:`ConfigError` where the user names others."""
        self._configs = configs
        self._labels = labels
        self._config = configs.get(AnswerConfig)
        self._selection = self._read(self._config)
        node.add_on_set_parameters_callback(self._check)

    @property
    def current(self) -> Selection:
        """What is reported now."""
        config = self._configs.get(AnswerConfig)
        if config is not self._config:
            self._config, self._selection = config, self._read(config)
        return self._selection

    def _read(self, config: AnswerConfig) -> Selection:
        return Selection.of(config.score_threshold, config.classes, self._labels)

    def _check(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        wanted = [str(parameter.value) for parameter in parameters if parameter.name == "classes"]
        try:
            for classes in wanted:
                Selection.of(0.0, classes, self._labels)
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)
