# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Everything that a search for schedules depends on, as data for a process of its own; it cannot execute anything."""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from cacheinf_ros.offload.planning.plan_table import Machines, ScheduleTable, solve
from cacheinf_ros.offload.planning.workload import Reads, RowWork


def _names(record: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record))


_OF_WORK, _OF_READS, _OF_MACHINES = _names(RowWork), _names(Reads), _names(Machines)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchProblem:
    """A problem for a search for schedules.

    Attributes:
        work: the network.
        machines: robot and server.
        time_limit_s: how long to search.
    """

    work: RowWork
    machines: Machines
    time_limit_s: float

    def solve(self) -> ScheduleTable:
        """Search in this process."""
        return solve(self.work, self.machines, time_limit_s=self.time_limit_s)


def problem_bytes(problem: SearchProblem) -> bytes:
    """Write a problem as an archive of arrays (npz)."""
    parts: dict[str, Any] = {name: getattr(problem.work, name) for name in _OF_WORK if name != "reads"}
    parts |= {name: getattr(problem.work.reads, name) for name in _OF_READS}
    parts |= {name: getattr(problem.machines, name) for name in _OF_MACHINES}
    file = io.BytesIO()
    np.savez(file, time_limit_s=problem.time_limit_s, **parts)
    return file.getvalue()


def problem_of(content: bytes) -> SearchProblem:
    """Read a problem from an archive of arrays, as :func:`problem_bytes` writes it."""
    with np.load(io.BytesIO(content), allow_pickle=False) as parts:
        found: dict[str, Any] = {name: parts[name] if parts[name].ndim else float(parts[name]) for name in parts.files}
    reads = Reads(**{name: found[name] for name in _OF_READS})
    return SearchProblem(
        work=RowWork(reads=reads, **{name: found[name] for name in _OF_WORK if name != "reads"}),
        machines=Machines(**{name: found[name] for name in _OF_MACHINES}),
        time_limit_s=found["time_limit_s"],
    )
