# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Schedules once solved are kept for the next start."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from cacheinf_ros.disk_cache import KeptFile, cache_folder
from cacheinf_ros.offload.planning.plan_table import CACHED, MBIT_S, Machines, ScheduleTable, solve
from cacheinf_ros.offload.planning.workload import Reads, Workload

_VERSION = 2


def load_or_solve(name: str, workload: Workload, surroundings: Machines, *, time_limit_s: float) -> ScheduleTable:
    """The stored table for a model, two machines and a search of this length; solved and stored where there is none.

    Args:
        name: of the model, for the file's name.
    """
    key = _key(workload, surroundings, time_limit_s)
    path = cache_folder() / "schedules" / f"{Path(name).name}-{key}.json"
    shape = (len(MBIT_S), len(CACHED), len(workload.names))
    file = KeptFile(path=path, what="table of schedules", remedy="solving")
    stored = file.read_json(lambda content: _table(content, workload, shape))
    if stored is not None:
        return stored
    table = solve(workload, surroundings, time_limit_s=time_limit_s)
    file.write_json({"rows": table.rows.ravel().tolist()})
    return table


def _table(content: Any, workload: Workload, shape: tuple[int, ...]) -> ScheduleTable:
    rows = np.array(content["rows"], np.int64).reshape(shape)
    if (rows < 0).any() or (rows > workload.heights[1:]).any():
        raise ValueError("it has rows that the model has not")
    return ScheduleTable(mbit_s=MBIT_S, reuse=CACHED, rows=rows)


def _key(workload: Workload, surroundings: Machines, time_limit_s: float) -> str:
    """Hash all that the table depends on."""
    digest = hashlib.sha256(repr((_VERSION, time_limit_s, MBIT_S, CACHED, workload.names)).encode())
    work = (workload.heights, workload.row_values, workload.row_pixels, workload.groups, workload.results)
    for part in (*work, workload.is_levels, workload.active, *_values(workload.reads), *_values(surroundings)):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]


def _values(record: Reads | Machines) -> list[Any]:
    return [getattr(record, field.name) for field in fields(record)]
