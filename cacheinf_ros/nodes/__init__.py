# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The ROS nodes: all that imports rclpy or messages, and nothing else."""

# Importing a node loads ROS and all that it runs: others import the one module that they need.
__all__ = ["conversions", "packet_relay", "recorder", "robot_station"]
