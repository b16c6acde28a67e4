# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The loop behind :mod:`cacheinf_ros.offload.planning.timeline`, compiled within the process.

It has a file of its own because importing it loads numba, which is needed only to share frames with a server.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cacheinf_ros.engine.cost import POINTS
from cacheinf_ros.jit import FLOAT, Array
from cacheinf_ros.jit.compiled import Record, compiled
from cacheinf_ros.offload.planning.workload import Integers, Numbers

_INTEGERS = Array("int64", 1)
_INTS, _FLOATS = Array("int64", 1, writable=True), Array("float64", 1, writable=True)
_TABLE = Array("float64", 2, writable=True)
_HEADER = 64.0  # bytes of a message besides its content


class Network(NamedTuple):
    """The network as arrays; see :class:`Workload` and :class:`Reads`."""

    heights: Integers
    first: Integers
    tensor: Integers
    offset: Integers
    ends: Integers
    starts: Integers
    results: Integers


class Side(NamedTuple):
    """One of the two machines.

    Attributes:
        took_ms: float64 [operators, points]: what its operators take.
        active: float64 [tensors]: the share of each tensor's pixels that it computes.
        row_bytes: float64 [tensors]: bytes of a row that it sends.
        transfer_ms: how long a tensor that is transferred inside the network keeps it busy.
    """

    took_ms: Numbers
    active: Numbers
    row_bytes: Numbers
    transfer_ms: float


class Progress(NamedTuple):
    """The state of a frame, which the loop fills in.

    Attributes:
        robot, server: when each side is done with a tensor.
        robot_from, server_from: when the other side's part of a tensor arrives there, until it has been taken; 0: there
            is none.
        wanted, left_out: the end of the rows of a tensor that the robot reads, and the start of those the server reads.
        total: the end, bytes up, bytes down, how long each machine computes, and how many tensors are transferred.
    """

    robot: Numbers
    server: Numbers
    robot_from: Numbers
    server_from: Numbers
    wanted: Integers
    left_out: Integers
    total: Numbers


def side_of(took_ms: Numbers, active: Numbers, row_bytes: Numbers, transfer_ms: float) -> Side:
    """Return a side whose arrays are contiguous, writable copies, as the compiled code requires."""
    took_ms, active, row_bytes = (np.array(part, np.float64, order="C") for part in (took_ms, active, row_bytes))
    return Side(took_ms, active, row_bytes, float(transfer_ms))


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
def _find_boundaries(rows: Integers, net: Network, progress: Progress) -> None:
    """Find the rows of each tensor that the other side's operators read."""
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
def _take_in(net: Network, operator: int, arrives: Numbers, busy: float, transfer_ms: float) -> tuple[float, int]:
    """Return until when receiving what an operator reads keeps a machine busy, and how many inner tensors it took."""
    taken = 0
    for e in range(net.first[operator], net.first[operator + 1]):
        read = net.tensor[e]
        if arrives[read] > 0:
            busy = max(busy, arrives[read]) + (transfer_ms if read > 0 else 0.0)
            arrives[read] = 0.0
            taken += read > 0
    return busy, taken


@compiled()
def _follow_named(
    rows: Integers, net: Network, robot: Side, server: Side, rate: float, delay: float, progress: Progress
) -> None:
    """Fill in the progress of a frame of which the robot computes the given rows of each operator."""
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
def follow(
    rows: Integers,
    net: tuple[Integers, ...],
    robot: tuple[Any, ...],
    server: tuple[Any, ...],
    rate: float,
    delay: float,
    progress: tuple[Any, ...],
) -> None:
    """Call :func:`_follow_named`: numba recognises plain tuples much faster than named ones."""
    _follow_named(rows, Network(*net), Side(*robot), Side(*server), rate, delay, Progress(*progress))
