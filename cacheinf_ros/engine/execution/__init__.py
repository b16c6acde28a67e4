# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Active sets, the plan of a graph, and the two executors: compiled, and plain torch."""

# Who plans for two machines asks what a plan would compute, and plans alike.
__all__ = ["active", "border", "graph_planner", "plan", "steps"]
