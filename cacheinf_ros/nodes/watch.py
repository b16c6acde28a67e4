# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Publishes a node's health on /diagnostics."""

from __future__ import annotations

import time
from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from cacheinf_ros.nodes.conversions import status_message
from cacheinf_ros.nodes.topics import profile
from cacheinf_ros.pipeline import Health, WorkState
from cacheinf_ros.pipeline.node_configs import WatchConfig

PERIOD_S = 1.0


class Watch:
    """A timer that reports even while the worker is stuck, and while a simulated clock stands still."""

    def __init__(
        self,
        node: Node,
        health: Health,
        *,
        config: Callable[[], WatchConfig],
        work: Callable[[], WorkState],
        hardware_id: str,
    ) -> None:
        """Report every second.

        Args:
            node: the node that publishes.
            health: what is reported.
            config: returns the present configuration.
            work: returns the state of the node's threads.
            hardware_id: the camera that the report is about; empty: none.
        """
        self._node = node
        self._health = health
        self._config = config
        self._work = work
        self._hardware_id = hardware_id
        self._name = node.get_fully_qualified_name().lstrip("/")
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", profile(10))
        node.create_timer(PERIOD_S, self.report, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def report(self) -> None:
        """Publish one diagnostics message."""
        config = self._config()
        status = self._health.status(
            self._work(),
            latency_budget_ms=config.latency_budget_ms,
            stuck_after_s=config.stuck_after_s,
            now_s=time.monotonic(),
        )
        message = DiagnosticArray(status=[status_message(self._name, status, self._hardware_id)])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)
