"""Matcher, inference, server and replay nodes: thin adapters from ROS to the rest of the package.

Only the way to start them is exported; the nodes themselves import rclpy and run as processes.
"""

from cacheinf_ros.nodes.processes import NodeCommand, NodeGroup, NodeProcess, ProcessError, wait_until

__all__ = ["NodeCommand", "NodeGroup", "NodeProcess", "ProcessError", "wait_until"]
