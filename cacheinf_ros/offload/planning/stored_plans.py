# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Schedules that were solved once, kept on the disk for the next start."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from cacheinf_ros.disk_cache import KeptFile, cache_folder
from cacheinf_ros.offload.planning.plan_table import CACHED, MBIT_S, Machines, ScheduleTable, solve
from cacheinf_ros.offload.planning.workload import Integers, Numbers, RowWork, Workload

_VERSION = 3
IDENTITY_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptTable:
    """The place of a table of schedules on the disk.

    Attributes:
        workload: the network that the table is for.
        file: the file, whether or not it exists.
    """

    workload: RowWork
    file: KeptFile

    def read(self) -> ScheduleTable | None:
        """Read the table, or return None where there is none that can be used."""
        return self.file.read_json(lambda content: standard_table(np.array(content["rows"], np.int64), self.workload))

    def write(self, table: ScheduleTable) -> None:
        """Store a table; where that fails, a warning is logged."""
        self.file.write_json({"rows": table.rows.ravel().tolist()})


def kept_table(name: str, workload: Workload, surroundings: Machines, *, time_limit_s: float) -> KeptTable:
    """Return where the table for a model, two machines and a search of this length is kept.

    Args:
        name: the model's name, for the file's name.
    """
    key = _key(workload, surroundings, time_limit_s)
    path = cache_folder() / "schedules" / f"{Path(name).name}-{key}.json"
    return KeptTable(workload=workload, file=KeptFile(path=path, what="table of schedules", remedy="solving"))


def load_or_solve(name: str, workload: Workload, surroundings: Machines, *, time_limit_s: float) -> ScheduleTable:
    """Return the stored table for a model, two machines and a search of this length; solve and store it if missing.

    Args:
        name: the model's name, for the file's name.
    """
    kept = kept_table(name, workload, surroundings, time_limit_s=time_limit_s)
    table = kept.read()
    if table is None:
        table = solve(workload, surroundings, time_limit_s=time_limit_s)
        kept.write(table)
    return table


def standard_table(rows: Integers, workload: RowWork) -> ScheduleTable:
    """Build a table over :data:`MBIT_S` and :data:`CACHED` from the rows of all its schedules, one after the other.

    Raises:
        ValueError: no robot could execute the table: the number of rows is wrong, an operator has fewer rows than
            stated, or one that must be computed whole would be torn apart.
    """
    operators, heights = len(workload.groups), workload.heights[1:]
    rows = rows.reshape(len(MBIT_S), len(CACHED), operators)
    if (rows < 0).any() or (rows > heights).any():
        raise ValueError("it has rows that the model has not")
    for group in range(workload.groups.max(initial=-1) + 1):
        members = workload.groups == group
        at_robot = rows[..., members] == heights[members]
        at_server = rows[..., members] == 0
        if not (at_robot.all(axis=-1) | at_server.all(axis=-1)).all():
            raise ValueError("it tears apart operators that can only be computed whole, at one side")
    return ScheduleTable(mbit_s=MBIT_S, reuse=CACHED, rows=rows)


def identity(workload: Workload, server_ms: Numbers) -> bytes:
    """Hash what robot and server must agree on before one searches for the other: the network and the server's times.

    It is made of integers and of values that have crossed the wire, so that it is the same on every kind of processor.
    """
    digest = hashlib.sha256(repr((_VERSION, MBIT_S, CACHED, workload.names)).encode())
    work = (workload.heights, workload.row_values, workload.row_pixels, workload.groups, workload.results)
    for part in (*work, workload.is_levels, *_values(workload.reads), server_ms):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.digest()[:IDENTITY_BYTES]


def _key(workload: Workload, surroundings: Machines, time_limit_s: float) -> str:
    """Hash everything that the table depends on."""
    digest = hashlib.sha256(identity(workload, surroundings.server_ms))
    for part in (float(time_limit_s), workload.active, *_values(surroundings)):
        digest.update(np.ascontiguousarray(part, np.float64).tobytes())
    return digest.hexdigest()[:16]


def _values(record: Any) -> list[Any]:
    return [getattr(record, field.name) for field in fields(record)]
