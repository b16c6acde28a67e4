# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What crosses when a server searches for schedules for a robot: the robot's question, and the table that answers it.

The question is T_c of CacheInf's algorithm 1, line 2. The network M does not cross: both have it, and a hash says that
it is the same one; so the server needs to believe nothing of it.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.planning.plan_table import CACHED, MBIT_S, Machines, ScheduleTable
from cacheinf_ros.offload.planning.stored_plans import IDENTITY_BYTES, identity, standard_table
from cacheinf_ros.offload.planning.workload import Numbers, RowWork, Workload
from cacheinf_ros.offload.protocol.inflate import inflated

_HEADER = struct.Struct(f"<{IDENTITY_BYTES}s6d")
_TIME = np.dtype("<f8")
_ROW = np.dtype("<i4")
_LONGEST_MS = 1e9
_MOST = (3600.0, 60_000.0, 16.0, 16.0, 60_000.0, 60_000.0)
"""Of the numbers in a question, in their order there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What a robot asks.

    Attributes:
        identity: hash of the network and of the server's times as the robot knows them, see
            :func:`.stored_plans.identity`.
        search_s: for which it would search.
        machines: the robot's times, T_c; the server's are the server's own, T_s.
    """

    identity: bytes
    search_s: float
    machines: Machines


def question_bytes(workload: Workload, machines: Machines, search_s: float) -> bytes:
    """A robot's question as bytes."""
    numbers = (
        search_s, machines.delay_ms, machines.value_bytes, machines.input_pixel_bytes, machines.robot_transfer_ms,
        machines.server_transfer_ms,
    )  # fmt: skip
    header = _HEADER.pack(identity(workload, machines.server_ms), *numbers)
    return header + machines.robot_ms.astype(_TIME).tobytes()


def question_of(content: bytes, server_ms: Numbers) -> Question:
    """The opposite.

    Args:
        server_ms: float64 [operators, points], the server's own times.

    Raises:
        MessageError: it is no question about a network of so many operators, or has numbers that cannot be.
    """
    size = _HEADER.size + server_ms.size * _TIME.itemsize
    if len(content) != size:
        raise MessageError(f"a question for schedules has {len(content)} bytes, not the {size} of this network")
    stated, *numbers = _HEADER.unpack_from(content)
    if not all(0 <= number <= most for number, most in zip(numbers, _MOST, strict=True)):
        raise MessageError("a question for schedules has numbers that cannot be")
    robot_ms = np.frombuffer(content, _TIME, offset=_HEADER.size).astype(np.float64).reshape(server_ms.shape)
    if not ((robot_ms >= 0) & (robot_ms < _LONGEST_MS)).all():  # not a number is neither
        raise MessageError("a question for schedules has times that cannot be")
    search_s, delay_ms, value_bytes, pixel_bytes, robot_transfer_ms, server_transfer_ms = numbers
    machines = Machines(
        robot_ms=robot_ms,
        server_ms=server_ms,
        delay_ms=delay_ms,
        value_bytes=value_bytes,
        input_pixel_bytes=pixel_bytes,
        robot_transfer_ms=robot_transfer_ms,
        server_transfer_ms=server_transfer_ms,
    )
    return Question(identity=stated, search_s=search_s, machines=machines)


def table_bytes(table: ScheduleTable) -> bytes:
    """A table over the bandwidths and reuse ratios of this version as bytes: the two axes, and rows, packed."""
    axes = np.array([*table.mbit_s, *table.reuse], _TIME)
    return zlib.compress(axes.tobytes() + table.rows.astype(_ROW).tobytes())


def table_of(content: bytes, workload: RowWork) -> ScheduleTable:
    """The opposite.

    Raises:
        MessageError: it is no table that a robot with this network can execute.
    """
    axes = np.array([*MBIT_S, *CACHED], _TIME)
    plain = inflated(content, axes.nbytes + _rows_bytes(workload), "a table of schedules")
    if plain[: axes.nbytes] != axes.tobytes():
        raise MessageError("a table of schedules is for other bandwidths or reuse ratios: install the same version")
    try:
        return standard_table(np.frombuffer(plain, _ROW, offset=axes.nbytes).astype(np.int64), workload)
    except ValueError as error:
        raise MessageError(f"a table of schedules cannot be executed: {error}") from None


def most_table_bytes(workload: RowWork) -> int:
    """The longest table that makes sense, packed: what does not shrink grows by less than a hundredth."""
    return math.ceil(1.01 * _rows_bytes(workload)) + 1000


def _rows_bytes(workload: RowWork) -> int:
    return len(MBIT_S) * len(CACHED) * len(workload.groups) * _ROW.itemsize
