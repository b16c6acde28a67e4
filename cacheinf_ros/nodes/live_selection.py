# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which of a model's answers a node reports, following the parameters while the node runs."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from cacheinf_ros.config import CurrentConfigs
from cacheinf_ros.engine import Selection
from cacheinf_ros.nodes.parameters import verdict
from cacheinf_ros.pipeline.node_configs import AnswerConfig


class LiveSelection:
    """Follows ``score_threshold``, ``classes`` and ``region``, and has the node refuse classes that the model lacks.

    Attributes:
        current: the selection that is reported now.
    """

    def __init__(self, node: Node, configs: CurrentConfigs, labels: tuple[str, ...]) -> None:
        """Prepare; raises :class:`ConfigError` where the user names classes that are not in the model's ``labels``."""
        self._labels = labels
        self._config = configs.get(AnswerConfig)
        self.current = self._read(self._config)
        self._node = node
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._apply)

    def close(self) -> None:
        """Stop following the parameters."""
        self._node.remove_on_set_parameters_callback(self._check)
        self._node.remove_post_set_parameters_callback(self._apply)

    def _read(self, config: AnswerConfig) -> Selection:
        return Selection.of(config.score_threshold, config.classes, self._labels, config.region)

    def _changed(self, parameters: list[Parameter[Any]]) -> AnswerConfig:
        """Return the changed configuration, computed here because rclpy tells the node's configurations only later."""
        return self._config.changed(
            **{each.name: each.value for each in parameters if each.name in AnswerConfig.model_fields}
        )

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        self._config = self._changed(parameters)
        selection = self._read(self._config)
        if selection != self.current:
            self.current = selection

    def _check(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        return verdict(lambda: self._read(self._changed(parameters)))
