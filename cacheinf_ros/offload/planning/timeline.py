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
from typing import Any, NamedTuple

import numpy as np

from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.jit import FLOAT, Array
from cacheinf_ros.jit.compiled import Record, compiled
from cacheinf_ros.offload.planning.partition_costs import Link
from cacheinf_ros.offload.planning.workload import Integers, Numbers, Workload

_INTEGERS = Array("int64", 1)
_INTS, _FLOATS = Array("int64", 1, writable=True), Array("float64", 1, writable=True)
_TABLE = Array("float64", 2, writable=True)
_BITS = 1 / 8  # bytes of a pixel's flag
_PACKED = 1 / 64  # of the input's flags, which are compressed
_HEADER = 64.0  # bytes of a message beside its content


class _Network(NamedTuple):
    """See :class:`Workload` and :class:`Reads`."""

    heights: Integers
    first: Integers
    tensor: Integers
    offset: Integers
    ends: Integers
    starts: Integers
    results: Integers


class _Side(NamedTuple):
    """One of the machines.

    Attributes:
        took_ms: float64 [operators, points], of its operators.
        active: float64 [tensors]: share of their pixels that it computes.
        row_bytes: float64 [tensors], of a row that it sends.
        transfer_ms: that a tensor which is transferred inside the network keeps it busy.
    """

    took_ms: Numbers
    active: Numbers
    row_bytes: Numbers
    transfer_ms: float


class _Progress(NamedTuple):
    """What a frame fills in.

    Attributes:
        robot, server: when each side is done with a tensor.
        robot_from, server_from: when the other side's part of it arrives there, as long as it has not been taken; 0:
            there is none.
        wanted, left_out: rows before which the robot reads it, and before which the server does not.
        total: the end, bytes up, bytes down, how long each machine computes, and how many tensors are transferred.
    """

    robot: Numbers
    server: Numbers
    robot_from: Numbers
    server_from: Numbers
    wanted: Integers
    left_out: Integers
    total: Numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditions:
    """What a frame meets.

    Attributes:
        link: between the machines.
        robot_ms, server_ms: float64 [operators, points], what operators take, see :func:`.partition_costs.profile`.
        active_robot, active_server: float64 [tensors]: share of each tensor's pixels that is computed there.
        value_bytes: of a number on the wire.
        input_pixel_bytes: of a pixel of the input on the wire, where it crosses as an image.
        robot_transfer_ms, server_transfer_ms: that a tensor transferred inside the network keeps each machine busy.
    """

    link: Link
    robot_ms: Numbers
    server_ms: Numbers
    active_robot: Numbers
    active_server: Numbers
    value_bytes: float = 4.0
    input_pixel_bytes: float = 3.0
    robot_transfer_ms: float = 0.0
    server_transfer_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """When each operator is done, in milliseconds from the frame's start.

    Attributes:
        robot, server: float64 [operators]; what a machine has no rows of is done with the operator before.
        end: when the robot has the outputs.
        robot_busy, server_busy: what the machines compute in all.
        sent, received: bytes that cross, seen from the robot.
        transfers: tensors that cross inside the network, in either direction: all but the input on its way to the
            server, and results on their way to the robot where no operator of it reads them.
    """

    robot: Numbers
    server: Numbers
    end: float
    robot_busy: float
    server_busy: float
    sent: float
    received: float
    transfers: int


class Timeline:
    """Predicts frames of one network under the same conditions."""

    def __init__(self, workload: Workload, conditions: Conditions) -> None:
        reads, found, tensors = workload.reads, conditions, len(workload.heights)
        up, down = transfer_bytes(workload, found)
        parts = (reads.first, reads.tensor, reads.offset, reads.ends, reads.starts)
        network = _Network(*(np.array(part, np.int64) for part in (workload.heights, *parts, workload.results)))
        robot = _side(found.robot_ms, found.active_robot, up, found.robot_transfer_ms)
        server = _side(found.server_ms, found.active_server, down, found.server_transfer_ms)
        times, limits = np.empty((4, tensors)), np.empty((2, tensors), np.int64)
        self._progress = _Progress(times[0], times[1], times[2], times[3], limits[0], limits[1], np.empty(6))
        rate, delay = float(found.link.bytes_per_ms), float(found.link.delay_ms)
        self._arguments = tuple(network), tuple(robot), tuple(server), rate, delay, tuple(self._progress)

    def end(self, rows: Integers) -> float:
        """Milliseconds until the robot has the outputs; ``rows``: int64 [operators], see :meth:`Workload.rows_of`."""
        _follow_tuples(rows, *self._arguments)
        return float(self._progress.total[0])

    def times(self, rows: Integers) -> Times:
        """Compute what :meth:`end` does, with all that leads to it."""
        end = self.end(rows)
        sent, received, robot_busy, server_busy, transfers = self._progress.total[1:].tolist()
        return Times(
            robot=self._progress.robot[1:].copy(),
            server=self._progress.server[1:].copy(),
            end=end,
            sent=sent,
            received=received,
            robot_busy=robot_busy,
            server_busy=server_busy,
            transfers=round(transfers),
        )


def _side(took_ms: Numbers, active: Numbers, row_bytes: Numbers, transfer_ms: float) -> _Side:
    """Contiguous copies that may be written to, which the compiled code asks for."""
    took_ms, active, row_bytes = (np.array(part, np.float64, order="C") for part in (took_ms, active, row_bytes))
    return _Side(took_ms, active, row_bytes, float(transfer_ms))


def transfer_bytes(workload: Workload, conditions: Conditions) -> tuple[Numbers, Numbers]:
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


@compiled()
def _find_boundaries(rows: Integers, net: _Network, progress: _Progress) -> None:
    """Which rows of each tensor the other side's operators read."""
    wanted, left_out = progress.wanted, progress.left_out
    for t in range(len(rows) + 1):
        wanted[t], left_out[t] = 0, net.heights[t]
    for i in range(len(rows)):
        for e in range(net.first[i], net.first[i + 1]):
            t = net.tensor[e]
            if rows[i] > 0:
                wanted[t] = max(wanted[t], net.ends[net.offset[e] + rows[i] - 1])
            if rows[i] < net.heights[i + 1]:
                left_out[t] = min(left_out[t], net.starts[net.offset[e] + rows[i]])


@compiled()
def _take_in(net: _Network, operator: int, arrives: Numbers, busy: float, transfer_ms: float) -> tuple[float, int]:
    """Until when a machine is busy that waits for what an operator reads; how many tensors it took in but the input."""
    taken = 0
    for e in range(net.first[operator], net.first[operator + 1]):
        read = net.tensor[e]
        if arrives[read] > 0:
            busy = max(busy, arrives[read]) + (transfer_ms if read > 0 else 0.0)
            arrives[read] = 0.0
            taken += read > 0
    return busy, taken


@compiled()
def _follow(
    rows: Integers, net: _Network, robot: _Side, server: _Side, rate: float, delay: float, progress: _Progress
) -> None:
    """Fill in the progress of a frame of which the robot computes these rows of each operator."""
    _find_boundaries(rows, net, progress)
    heights, wanted, left_out = net.heights, progress.wanted, progress.left_out
    up = down = busy_robot = busy_server = 0.0  # until when each direction and each machine is busy
    sent = received = robot_took = server_took = 0.0
    transfers = 0
    for t in range(len(rows) + 1):
        boundary = heights[0] if t == 0 else rows[t - 1]
        if t > 0 and boundary > 0:
            busy_robot, taken = _take_in(net, t - 1, progress.robot_from, busy_robot, robot.transfer_ms)
            took = _took(robot.took_ms, t - 1, robot.active[t] * boundary / heights[t])
            busy_robot += took
            robot_took += took
            transfers += taken
        if t > 0 and boundary < heights[t]:
            busy_server, taken = _take_in(net, t - 1, progress.server_from, busy_server, server.transfer_ms)
            took = _took(server.took_ms, t - 1, server.active[t] * (heights[t] - boundary) / heights[t])
            busy_server += took
            server_took += took
            transfers += taken
        progress.robot[t], progress.server[t] = busy_robot, busy_server
        progress.robot_from[t] = progress.server_from[t] = 0.0
        if left_out[t] < boundary:
            if t > 0:
                busy_robot += robot.transfer_ms
            size = (boundary - left_out[t]) * robot.row_bytes[t] + _HEADER
            up = max(up, busy_robot) + size / rate
            progress.server_from[t] = up + delay
            sent += size
        if wanted[t] > boundary:
            busy_server += server.transfer_ms
        if _is_among(net.results, t):
            wanted[t] = heights[t]
        if wanted[t] > boundary:
            size = (wanted[t] - boundary) * server.row_bytes[t] + _HEADER
            down = max(down, busy_server) + size / rate
            progress.robot_from[t] = down + delay
            received += size
    end = busy_robot
    for t in net.results:
        end = max(end, progress.robot_from[t])
    total = progress.total
    total[0], total[1], total[2] = end, sent, received
    total[3], total[4], total[5] = robot_took, server_took, transfers


@compiled(
    _INTEGERS,
    Record((_INTS,) * 7),
    *[Record((_TABLE, _FLOATS, _FLOATS, FLOAT))] * 2,
    FLOAT,
    FLOAT,
    Record((*[_FLOATS] * 4, _INTS, _INTS, _FLOATS)),
)
def _follow_tuples(
    rows: Integers,
    net: tuple[Integers, ...],
    robot: tuple[Any, ...],
    server: tuple[Any, ...],
    rate: float,
    delay: float,
    progress: tuple[Any, ...],
) -> None:
    """Call :func:`_follow`: numba takes much longer to recognise named tuples than plain ones."""
    _follow(rows, _Network(*net), _Side(*robot), _Side(*server), rate, delay, _Progress(*progress))
