# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The ROS nodes: everything in the package that imports rclpy or ROS messages is here, and nothing else is."""

# Importing a node loads ROS and everything the node runs, so that callers import only the module they need.
__all__ = ["conversions", "packet_relay", "recorder", "robot_station"]
