# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which offload policies a running node can change to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from cacheinf_ros.offload_policy import OffloadPolicy

DIVIDING = frozenset(OffloadPolicy) - {OffloadPolicy.LOCAL, OffloadPolicy.REMOTE_JPEG}
"""Those that divide the work on a frame. The others compute it whole, at one side, and need no engine made for it."""


def changeable_to(started_with: OffloadPolicy) -> frozenset[OffloadPolicy]:
    """What an inference node can change to: whatever its engine is made for."""
    return frozenset(OffloadPolicy) if started_with in DIVIDING else frozenset(OffloadPolicy) - DIVIDING


def refuse_others(node: Node, allowed: Collection[OffloadPolicy]) -> None:
    """Let a node refuse to change ``server.policy`` to any other."""

    def check(parameters: list[Parameter[Any]]) -> SetParametersResult:
        wanted = [parameter.value for parameter in parameters if parameter.name == "server.policy"]
        possible = [policy.value for policy in OffloadPolicy if policy in allowed]
        if all(value in possible for value in wanted):
            return SetParametersResult(successful=True)
        return SetParametersResult(
            successful=False,
            reason=f"server.policy {wanted[-1]}: this node runs with {', '.join(possible)}; for others start it anew",
        )

    node.add_on_set_parameters_callback(check)
