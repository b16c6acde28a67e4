# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Schedules once solved are kept for the next start."""

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
    """The place of a table on the disk.

    Attributes:
        workload: that it is for.
        file: where it is, or would be.
    """

    workload: RowWork
    file: KeptFile

    def read(self) -> ScheduleTable | None:
        """The table; None where there is none that can be used."""
        return self.file.read_json(lambda content: standard_table(np.array(content["rows"], np.int64), self.workload))

    def write(self, table: ScheduleTable) -> None:
        """Keep a table; a warning says where that is not possible."""
        self.file.write_json({"rows": table.rows.ravel().tolist()})


def kept_table(name: str, workload: Workload, surroundings: Machines, *, time_limit_s: float) -> KeptTable:
    """Where the table for a model, two machines and a search of this length is kept.

    Args:
        name: of the model, for the file's name.
    """
    key = _key(workload, surroundings, time_limit_s)
    path = cache_folder() / "schedules" / f"{Path(name).name}-{key}.json"
    return KeptTable(workload=workload, file=KeptFile(path=path, what="table of schedules", remedy="solving"))


def load_or_solve(name: str, workload: Workload, surroundings: Machines, *, time_limit_s: float) -> ScheduleTable:
    """The stored table for a model, two machines and a search of this length; solved and stored where there is none.

    Args:
        name: of the model, for the file's name.
    """
    kept = kept_table(name, workload, surroundings, time_limit_s=time_limit_s)
    table = kept.read()
    if table is None:
        table = solve(workload, surroundings, time_limit_s=time_limit_s)
        kept.write(table)
    return table


def standard_table(rows: Integers, workload: RowWork) -> ScheduleTable:
    """A table over :data:`MBIT_S` and :data:`CACHED` from all of its rows, one after the other.

    Raises:
        ValueError: no robot could execute it: there are not so many, or an operator has not so many rows, or one that
            is computed whole would be torn apart.
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

    It is made of integers and of what has crossed the wire, so that it is the same on every kind of processor.
    """
    digest = hashlib.sha256(repr((_VERSION, MBIT_S, CACHED, workload.names)).encode())
    work = (workload.heights, workload.row_values, workload.row_pixels, workload.groups, workload.results)
    for part in (*work, workload.is_levels, *_values(workload.reads), server_ms):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.digest()[:IDENTITY_BYTES]


def _key(workload: Workload, surroundings: Machines, time_limit_s: float) -> str:
    """Hash all that the table depends on."""
    digest = hashlib.sha256(identity(workload, surroundings.server_ms))
    for part in (float(time_limit_s), workload.active, *_values(surroundings)):
        digest.update(np.ascontiguousarray(part, np.float64).tobytes())
    return digest.hexdigest()[:16]


def _values(record: Any) -> list[Any]:
    return [getattr(record, field.name) for field in fields(record)]
