# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The search for schedules: by the server, in a process of its own, for a robot that asks; else by the robot itself."""

from cacheinf_ros.offload.searching.schedule_finder import ScheduleFinder
from cacheinf_ros.offload.searching.schedule_searches import ScheduleSearches, server_side

__all__ = ["ScheduleFinder", "ScheduleSearches", "server_side"]
