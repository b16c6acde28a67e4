# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The ROS nodes: all that imports rclpy or messages, and nothing else."""
