# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Planning of partitions: which rows a robot and a server each compute when they share a frame."""

from cacheinf_ros.offload.planning.asking import Asking
from cacheinf_ros.offload.planning.contention import Contention
from cacheinf_ros.offload.planning.minimum_cut import dnn_surgery
from cacheinf_ros.offload.planning.partition_costs import Link, at_share, profile
from cacheinf_ros.offload.planning.plan_table import Machines, ScheduleTable
from cacheinf_ros.offload.planning.planner import Choice, Scheduler, load_planner
from cacheinf_ros.offload.planning.thrift import Thrift
from cacheinf_ros.offload.planning.timeline import Conditions, Timeline, Times
from cacheinf_ros.offload.planning.workload import Integers, Numbers, Workload, tensor_bytes

__all__ = [
    "Asking", "Choice", "Conditions", "Contention", "Integers", "Link", "Machines", "Numbers", "ScheduleTable",
    "Scheduler", "Thrift", "Timeline", "Times", "Workload", "at_share", "dnn_surgery", "load_planner", "profile",
    "tensor_bytes",
]  # fmt: skip
