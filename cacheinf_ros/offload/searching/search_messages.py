# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The messages of a search by the server: the robot's question, and the table that answers it.

The question is T_c of CacheInf's algorithm 1, line 2. The network M is not sent: both sides have it, and a hash tells
whether it is the same, so that the server need not trust the robot about it.
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
"""The largest values of the numbers in a question, in their order there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A robot's question for schedules.

    Attributes:
        identity: hash of the network and of the server's times as the robot knows them, see
            :func:`.stored_plans.identity`.
        search_s: how long the robot would search, seconds.
        machines: the robot's times, T_c, and the server's own, T_s.
    """

    identity: bytes
    search_s: float
    machines: Machines


def question_bytes(workload: Workload, machines: Machines, search_s: float) -> bytes:
    """Encode a robot's question."""
    numbers = (
        search_s, machines.delay_ms, machines.value_bytes, machines.input_pixel_bytes, machines.robot_transfer_ms,
        machines.server_transfer_ms,
    )  # fmt: skip
    header = _HEADER.pack(identity(workload, machines.server_ms), *numbers)
    return header + machines.robot_ms.astype(_TIME).tobytes()


def question_of(content: bytes, server_ms: Numbers) -> Question:
    """Read a robot's question, as :func:`question_bytes` writes it.

    Args:
        content: the bytes.
        server_ms: float64 [operators, points]: the server's own times.

    Raises:
        MessageError: it is no question about a network with that many operators, or has impossible numbers.
    """
    size = _HEADER.size + server_ms.size * _TIME.itemsize
    if len(content) != size:
        raise MessageError(f"a question for schedules has {len(content)} bytes, not the {size} of this network")
    stated, *numbers = _HEADER.unpack_from(content)
    if not all(0 <= number <= most for number, most in zip(numbers, _MOST, strict=True)):
        raise MessageError("a question for schedules has numbers that cannot be")
    robot_ms = np.frombuffer(content, _TIME, offset=_HEADER.size).astype(np.float64).reshape(server_ms.shape)
    if not ((robot_ms >= 0) & (robot_ms < _LONGEST_MS)).all():  # also false for NaN
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
    """Encode a table over the bandwidths and reuse ratios of this version: the two axes, and rows, compressed."""
    axes = np.array([*table.mbit_s, *table.reuse], _TIME)
    return zlib.compress(axes.tobytes() + table.rows.astype(_ROW).tobytes())


def table_of(content: bytes, workload: RowWork) -> ScheduleTable:
    """Read a table, as :func:`table_bytes` writes it.

    Raises:
        MessageError: the content is no table that a robot with this network can execute.
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
    """Return the largest size of an encoded table: data that cannot be compressed grows by less than 1 %."""
    return math.ceil(1.01 * _rows_bytes(workload)) + 1000


def _rows_bytes(workload: RowWork) -> int:
    return len(MBIT_S) * len(CACHED) * len(workload.groups) * _ROW.itemsize
