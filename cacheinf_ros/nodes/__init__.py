"""The ROS nodes: all that imports rclpy or messages, and nothing else."""
