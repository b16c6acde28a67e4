# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the memory planner's paper: the arenas of its networks, hard problems, and planning in rounds."""

from benchmarks.memory.placements import run_placement_benchmark
from benchmarks.memory.tables import print_placements

__all__ = ["print_placements", "run_placement_benchmark"]
