# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Starts nodes as processes, plays sources through them and keeps what they say, without ``ros2 launch``."""

from cacheinf_ros.harness.processes import NodeCommand, NodeGroup, NodeProcess, ProcessError

__all__ = ["NodeCommand", "NodeGroup", "NodeProcess", "ProcessError"]
