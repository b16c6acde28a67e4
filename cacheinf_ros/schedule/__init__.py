"""Who computes what, when a robot and a server share the work."""

from cacheinf_ros.schedule.costs import Link, profile
from cacheinf_ros.schedule.policy import OffloadPolicy
from cacheinf_ros.schedule.scheduler import Choice, Scheduler
from cacheinf_ros.schedule.table import ScheduleTable, Surroundings, solve
from cacheinf_ros.schedule.workload import Workload

__all__ = [
    "Choice", "Link", "OffloadPolicy", "ScheduleTable", "Scheduler", "Surroundings", "Workload", "profile", "solve",
]  # fmt: skip
