"""Who computes what, when a robot and a server share the work."""

from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.schedule.costs import Link, profile
from cacheinf_ros.schedule.scheduler import Choice, Scheduler
from cacheinf_ros.schedule.stored import load_or_solve
from cacheinf_ros.schedule.table import ScheduleTable, Surroundings
from cacheinf_ros.schedule.workload import Workload

__all__ = [
    "Choice", "Link", "OffloadPolicy", "ScheduleTable", "Scheduler", "Surroundings", "Workload", "load_or_solve",
    "profile",
]  # fmt: skip
