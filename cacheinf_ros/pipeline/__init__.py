# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""One frame without ROS: which frame is next, what is reusable for it, the run, and how the node is doing."""
