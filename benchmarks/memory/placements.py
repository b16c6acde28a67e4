# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench memory``: measures how small an arena each strategy finds."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.memory.networks import PAPER_NETWORKS
from benchmarks.memory.rounds import by_time, in_rounds
from cacheinf_ros.errors import PlanError, SourceError
from cacheinf_ros.memory import (
    MIB,
    OFFSETS,
    SHARED_OBJECTS,
    Placement,
    TensorRecord,
    check,
    least_for_offsets,
    least_for_shared_objects,
)
from cacheinf_ros.memory.optimal import optimal
from cacheinf_ros.memory.strategies import Strategy

_ROUNDS = (1, 2, 4, 8)  # numbers of rounds in which shapes become known


def run_placement_benchmark(instances: Path | None, *, time_limit_s: float) -> dict[str, Any]:
    """Place the tensors of the paper's networks, and of the allocation problems in a folder.

    Args:
        instances: a folder of ``NAME.CAPACITY.csv`` files such as MiniMalloc's; None: the networks only.
        time_limit_s: limit of the search for the optimum of each problem, s.

    Raises:
        SourceError: the folder or a file in it cannot be read.
    """
    networks = {name: _placements(make(), time_limit_s) for name, make in PAPER_NETWORKS.items()}
    report: dict[str, Any] = {"placement": networks}
    if instances is not None:
        paths = sorted(instances.glob("*.csv"))
        if not paths:
            raise SourceError(f"{instances} holds no allocation problems; they are called NAME.CAPACITY.csv")
        report["minimalloc"] = {path.name.split(".")[0]: _solutions(path, time_limit_s) for path in paths}
    return report


def read_instance(path: Path) -> tuple[list[TensorRecord], int]:
    """Read a problem of MiniMalloc's (Moffitt, 2023); return its buffers and its capacity in bytes.

    The columns are id, lower, upper and size; a buffer is alive from lower to upper, excluding upper.

    Raises:
        SourceError: the file is not such a problem.
    """
    try:
        capacity = int(path.name.split(".")[1])
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return [
            TensorRecord(size=int(row["size"]), first=int(row["lower"]), last=int(row["upper"]) - 1, name=row["id"])
            for row in rows
        ], capacity
    except (OSError, ValueError, TypeError, KeyError, IndexError, PlanError) as error:
        raise SourceError(f"{path} is no allocation problem: {error}") from error


def _placements(records: Sequence[TensorRecord], time_limit_s: float) -> dict[str, Any]:
    """Place the tensors of a network by each strategy, and return the arenas' sizes, MiB."""

    def sizes(strategies: Mapping[str, Strategy]) -> dict[str, float]:
        return {name: _checked(strategy, records).size / MIB for name, strategy in strategies.items()}

    return {
        "shared_objects": sizes(SHARED_OBJECTS),
        "offsets": sizes({**OFFSETS, "optimal": _optimal(0, time_limit_s)}),
        "bounds": {
            "shared_objects": least_for_shared_objects(records) / MIB,
            "offsets": least_for_offsets(records) / MIB,
        },
        "rounds": {count: in_rounds(by_time(records, count))[-1].size / MIB for count in _ROUNDS},
    }


def _solutions(path: Path, time_limit_s: float) -> dict[str, Any]:
    records, capacity = read_instance(path)
    found = {}
    for name, strategy in {**OFFSETS, "optimal": _optimal(capacity, time_limit_s)}.items():
        started = time.perf_counter()
        placement = _checked(strategy, records)
        seconds = time.perf_counter() - started
        found[name] = {"bytes": placement.size, "fits": placement.size <= capacity, "seconds": round(seconds, 3)}
    return found


def _optimal(capacity: int, time_limit_s: float) -> Strategy:
    return lambda records: optimal(records, capacity=capacity, time_limit_s=time_limit_s).placement


def _checked(strategy: Strategy, records: Sequence[TensorRecord]) -> Placement:
    placement = strategy(records)
    check(records, placement)
    return placement
