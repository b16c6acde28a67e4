# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Who computes what, when a robot and a server share the work."""

from cacheinf_ros.offload.planning.partition_costs import Link, profile
from cacheinf_ros.offload.planning.plan_table import Machines, ScheduleTable
from cacheinf_ros.offload.planning.planner import Choice, Scheduler
from cacheinf_ros.offload.planning.stored_plans import load_or_solve
from cacheinf_ros.offload.planning.workload import Workload

__all__ = [
    "Choice",
    "Link",
    "Machines",
    "ScheduleTable",
    "Scheduler",
    "Workload",
    "load_or_solve",
    "profile",
]  # fmt: skip
