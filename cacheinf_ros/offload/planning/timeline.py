# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""When everything happens in a frame that two machines share: t_i^c and t_i^s of CacheInf, section 4.3.2.

Each machine computes its rows of one operator after the other. It starts with an operator when it is done with the one
before, and when what it reads of the other machine's rows has arrived. Rows cross as soon as they are computed, one
tensor after the other in each direction, both directions at once:

    start_i^c   = max(t_{i-1}^c, arrival of each tensor that i reads rows of that are the server's)
    t_i^c       = start_i^c + T_i^c(x_i a_i)                      a_i: active share of the operator
    arrival_j^c = max(t_j^s, end of the sending before) + bytes_j / bandwidth + delay

and the same with the machines changed. A frame ends when the robot has all of the outputs. Beyond the paper, a tensor
inside the network that crosses keeps both machines busy: the one packs and sends it, the other takes it apart before it
goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.jit import FLOAT, Array
from cacheinf_ros.jit.compiled import compiled
from cacheinf_ros.offload.planning.partition_costs import Link
from cacheinf_ros.offload.planning.workload import Integers, Numbers, Workload

_INTEGERS, _NUMBERS, _TABLE = Array("int64", 1), Array("float64", 1), Array("float64", 2)
_OUT, _ENDS = Array("float64", 1, writable=True), Array("int64", 1, writable=True)
_BITS = 1 / 8  # bytes of a pixel's flag
_PACKED = 1 / 64  # of the input's flags, which are compressed
_HEADER = 64.0  # bytes of a message beside its content


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditions:
    """What a frame meets.

    Attributes:
        link: between the machines.
        at_robot, at_server: float64 [operators, points], milliseconds, see :func:`.costs.profile`.
        active_robot, active_server: float64 [tensors]: share of each tensor's pixels that is computed there.
        value_bytes: of a number on the wire.
        input_pixel_bytes: of a pixel of the input on the wire, where it crosses as an image.
        crossing_robot_ms, crossing_server_ms: that a tensor which crosses inside the network keeps each machine busy.
    """

    link: Link
    robot_rows: Numbers
    at_server: Numbers
    active_robot: Numbers
    active_server: Numbers
    value_bytes: float = 4.0
    input_pixel_bytes: float = 3.0
    crossing_robot_ms: float = 0.0
    crossing_server_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """When each operator is done, in milliseconds from the frame's start.

    Attributes:
        robot, server: float64 [operators]; what a machine has no rows of is done with the operator before.
        end: when the robot has the outputs.
        robot_busy, server_busy: what the machines compute in all.
        sent, received: bytes that cross, seen from the robot.
        crossings: tensors that cross inside the network, in either direction: all but the input on its way to the
            server, and results on their way to the robot where no operator of it reads them.
    """

    robot: Numbers
    server: Numbers
    end: float
    robot_busy: float
    server_busy: float
    sent: float
    received: float
    crossings: int


class Timeline:
    """Predicts frames of one network under the same conditions."""

    def __init__(self, workload: Workload, conditions: Conditions) -> None:
        reads, active = workload.reads, (conditions.active_robot, conditions.active_server)
        tensors = len(workload.heights)
        self._done = np.empty((2, tensors))
        self._total = np.empty(6)
        costs = (np.ascontiguousarray(table, np.float64) for table in (conditions.robot_rows, conditions.at_server))
        self._arguments: tuple[Any, ...] = (
            workload.heights, reads.first, reads.tensor, reads.offset, reads.ends, reads.starts, workload.results,
            *costs, *active, *crossing_bytes(workload, conditions),
            conditions.link.bytes_per_ms, conditions.link.delay_ms, conditions.crossing_robot_ms,
            conditions.crossing_server_ms, *self._done, np.empty(tensors), np.empty(tensors),
            np.empty(tensors, np.int64), np.empty(tensors, np.int64), self._total,
        )  # fmt: skip

    def end(self, rows: Integers) -> float:
        """Milliseconds until the robot has the outputs; ``rows``: int64 [operators], see :meth:`Workload.rows_of`."""
        _follow(rows, *self._arguments)
        return float(self._total[0])

    def times(self, rows: Integers) -> Times:
        """The same, and all that leads to it."""
        end = self.end(rows)
        robot, server = self._done[:, 1:].copy()
        sent, received, robot_busy, server_busy, crossings = self._total[1:].tolist()
        return Times(
            robot=robot, server=server, end=end, sent=sent, received=received, robot_busy=robot_busy,
            server_busy=server_busy,
            crossings=round(crossings),
        )  # fmt: skip


def crossing_bytes(workload: Workload, conditions: Conditions) -> tuple[Numbers, Numbers]:
    """float64 [tensors] each: of one row on its way to the server, and to the robot.

    What crosses is what the other side lacks: of the input what the server has missed, of other tensors what either
    computes.
    """
    up = np.maximum(conditions.active_robot, conditions.active_server)
    down = up.copy()
    up[0] = conditions.active_server[0]
    return _row_bytes(workload, up, conditions), _row_bytes(workload, down, conditions)


def _row_bytes(workload: Workload, active: Numbers, conditions: Conditions) -> Numbers:
    """float64 [tensors]: of one row on the wire: a flag for each pixel, and the values of those that are active."""
    values = workload.row_values * active * conditions.value_bytes
    values[0] = workload.row_pixels[0] * active[0] * conditions.input_pixel_bytes
    bits = workload.row_pixels * _BITS
    bits[0] *= _PACKED
    return np.asarray(values + bits, np.float64)


@compiled()
def _took(table: Numbers, operator: int, share: float) -> float:
    if share <= 0:
        return 0.0
    i = 1
    while i < len(_GRID) - 1 and _GRID[i] < share:
        i += 1
    part = (share - _GRID[i - 1]) / (_GRID[i] - _GRID[i - 1])
    return table[operator, i - 1] + part * (table[operator, i] - table[operator, i - 1])


_GRID = np.array(POINTS)


@compiled()
def _is_among(results: Integers, tensor: int) -> bool:
    for result in results:  # noqa: SIM110 (compiled)
        if result == tensor:
            return True
    return False


@compiled(
    *[_INTEGERS] * 8, _TABLE, _TABLE, *[_NUMBERS] * 4, *[FLOAT] * 4, *[_OUT] * 4, *[_ENDS] * 2, _OUT,
)  # fmt: skip
def _follow(
    rows: Integers, heights: Integers, first: Integers, tensor: Integers, offset: Integers, ends: Integers,
    starts: Integers, results: Integers, robot_rows: Numbers, at_server: Numbers, active_robot: Numbers,
    active_server: Numbers, up_bytes: Numbers, down_bytes: Numbers, rate: float, delay: float, robot_crossing: float,
    server_crossing: float, robot: Numbers, server: Numbers, at_robot_from: Numbers, at_server_from: Numbers,
    wanted: Integers, left_out: Integers, total: Numbers,
) -> None:  # fmt: skip
    """Fills in when tensors are done (``robot``, ``server``), when the other side's part of them arrives as long as it
    has not been taken (``at_robot_from``, ``at_server_from``; 0: there is none), and ``total``: the end, bytes up,
    bytes down, how long each machine computes, and how many tensors cross inside.
    """
    operators = len(rows)
    for t in range(operators + 1):
        wanted[t], left_out[t] = 0, heights[t]
    for i in range(operators):
        for e in range(first[i], first[i + 1]):
            t = tensor[e]
            if rows[i] > 0:
                wanted[t] = max(wanted[t], ends[offset[e] + rows[i] - 1])
            if rows[i] < heights[i + 1]:
                left_out[t] = min(left_out[t], starts[offset[e] + rows[i]])
    up = down = busy_robot = busy_server = 0.0  # until when each direction and each machine is busy
    sent = received = robot_took = server_took = 0.0
    crossings = 0
    for t in range(operators + 1):
        boundary = heights[0] if t == 0 else rows[t - 1]
        if t > 0:
            i = t - 1
            if boundary > 0:
                for e in range(first[i], first[i + 1]):
                    read = tensor[e]
                    if at_robot_from[read] > 0:
                        busy_robot = max(busy_robot, at_robot_from[read]) + robot_crossing
                        at_robot_from[read] = 0.0
                        crossings += 1
                took = _took(robot_rows, i, active_robot[t] * boundary / heights[t])
                busy_robot += took
                robot_took += took
            if boundary < heights[t]:
                for e in range(first[i], first[i + 1]):
                    read = tensor[e]
                    if at_server_from[read] > 0:
                        busy_server = max(busy_server, at_server_from[read]) + (server_crossing if read > 0 else 0.0)
                        at_server_from[read] = 0.0
                        crossings += read > 0
                took = _took(at_server, i, active_server[t] * (heights[t] - boundary) / heights[t])
                busy_server += took
                server_took += took
        robot[t], server[t] = busy_robot, busy_server
        at_robot_from[t] = at_server_from[t] = 0.0
        if left_out[t] < boundary:
            if t > 0:
                busy_robot += robot_crossing
            size = (boundary - left_out[t]) * up_bytes[t] + _HEADER
            up = max(up, busy_robot) + size / rate
            at_server_from[t] = up + delay
            sent += size
        if wanted[t] > boundary:
            busy_server += server_crossing
        if _is_among(results, t):
            wanted[t] = heights[t]
        if wanted[t] > boundary:
            size = (wanted[t] - boundary) * down_bytes[t] + _HEADER
            down = max(down, busy_server) + size / rate
            at_robot_from[t] = down + delay
            received += size
    end = busy_robot
    for t in results:
        end = max(end, at_robot_from[t])
    total[0], total[1], total[2] = end, sent, received
    total[3], total[4], total[5] = robot_took, server_took, crossings
