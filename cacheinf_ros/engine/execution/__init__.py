# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Active sets, the plan of a graph, and two executors: the compiled one, and one in plain torch."""

# Planning for two machines uses these too: it asks what a plan would compute, and makes plans itself.
__all__ = ["active", "border", "graph_planner", "plan", "steps"]
