# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells other robots what classes the models of this one have lately answered, and hears it from them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

from rclpy.node import Node

from cacheinf_ros.catalog.specialists.other_robots import ClassReport, OtherRobots
from cacheinf_ros.catalog.specialists.specialiser import USUAL_RULES
from cacheinf_ros.msg import ClassCounts
from cacheinf_ros.nodes.class_count_messages import report_from, report_message
from cacheinf_ros.nodes.spinning import surviving
from cacheinf_ros.nodes.topics import profile, publish_on, subscribe_to
from cacheinf_ros.pipeline import Health

TOPIC = "/class_counts"
"""The topic of all robots' reports."""

_DEPTH = 100


class ClassReports:
    """Exchanges reports with other robots; must be used by the executor's thread.

    Attributes:
        others: what the other robots have lately said, which other threads may read.
    """

    def __init__(self, node: Node, health: Health) -> None:
        """Listen; ``health`` tells in diagnostics how many robots are heard."""
        self._robot = secrets.token_hex(8)
        self._known: frozenset[str] = frozenset()
        self.others = OtherRobots(USUAL_RULES.window_s)
        qos = profile(_DEPTH, reliable=False)  # the next one comes in a second
        self._publisher = publish_on(node, ClassCounts, TOPIC, qos)
        subscribe_to(node, ClassCounts, TOPIC, surviving("class counts", self._take), qos)
        self._health = health
        health.counted("robots_with_class_counts", lambda: self.others.robots(time.monotonic()))

    def follow(self, models: frozenset[str]) -> None:
        """Listen to reports about these models only, which are named by the SHA-256 of their weights."""
        self._known = models

    def tell(self, model: str, counts: Mapping[int, int]) -> None:
        """Tell the others what a model has lately answered; nothing is told where there are no counts."""
        if counts:
            self._publisher.publish(report_message(ClassReport(robot=self._robot, model=model, counts=counts)))

    def close(self) -> None:
        """Stop counting other robots in diagnostics; the node destroys publisher and subscription itself."""
        self._health.counted("robots_with_class_counts", lambda: 0)

    def _take(self, message: ClassCounts) -> None:
        if message.model in self._known and message.robot != self._robot:
            self.others.take(report_from(message), time.monotonic())
