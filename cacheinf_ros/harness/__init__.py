# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Starts nodes as processes, plays sources through them and records their messages, without ``ros2 launch``."""

from cacheinf_ros.harness.churn import Column
from cacheinf_ros.harness.domains import private_domain
from cacheinf_ros.harness.processes import NodeCommand, NodeGroup, NodeProcess, ProcessError

__all__ = [
    "Column", "NodeCommand", "NodeGroup", "NodeProcess", "ProcessError", "private_domain",
]  # fmt: skip

# Importing these loads ROS or what reports need; starting a node by this package needs neither.
__all__ += [
    "fleet_demo", "fleet_demo_report", "playback", "resources", "result_bag", "soak", "soak_limits", "soak_report",
]  # fmt: skip
