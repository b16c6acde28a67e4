# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""When everything happens in a frame that two machines share: t_i^c and t_i^s of CacheInf, section 4.3.2.

Each machine computes its rows of one operator after the other. It starts with an operator when it is done with the
previous one, and when what it reads of the other machine's rows has arrived. Rows cross as soon as they are computed,
one tensor after the other in each direction, both directions at once:

    start_i^c   = max(t_{i-1}^c, arrival of each tensor that i reads rows of that are the server's)
    t_i^c       = start_i^c + T_i^c(x_i a_i)                      a_i: active share of the operator
    arrival_j^c = max(t_j^s, end of the sending before) + bytes_j / bandwidth + delay

and likewise with the machines exchanged. A frame ends when the robot has all of the outputs, which is what equation 9
minimises. In the paper t_i^c = max(t_{i-1}^c + T_i^c, D / b + t_i^s): the robot computes an operator while rows that it
reads are still on their way. Our engine computes an operator when all that it reads is there, so T comes after the
arrival. Beyond the paper, a tensor inside the network that crosses keeps both machines busy: one packs and sends it,
the other unpacks it before it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cacheinf_ros.offload.planning.partition_costs import Link
from cacheinf_ros.offload.planning.workload import Integers, Numbers, RowWork

_BITS = 1 / 8  # bytes of a pixel's flag
_PACKED = 1 / 64  # of the input's flags, which are compressed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditions:
    """The conditions under which a frame is computed.

    Attributes:
        link: the link between the machines.
        robot_ms, server_ms: float64 [operators, points]: what operators take, see :func:`.partition_costs.profile`.
        active_robot, active_server: float64 [tensors]: the share of each tensor's pixels that is computed there.
        value_bytes: bytes of a float on the wire; a level has one.
        input_pixel_bytes: bytes of a pixel of the input on the wire, where the input crosses as an image.
        robot_transfer_ms, server_transfer_ms: how long a tensor transferred inside the network keeps each machine busy.
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
        robot, server: float64 [operators]; an operator of which a machine has no rows is done with the previous one.
        end: when the robot has the outputs.
        robot_busy, server_busy: how long the machines compute in all.
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
    """Predicts frames of one network under fixed conditions.

    Attributes:
        link: the link between the machines.
    """

    def __init__(self, workload: RowWork, conditions: Conditions) -> None:
        from cacheinf_ros.offload.planning.timeline_loop import Network, Progress, follow, side_of  # here: loads numba

        self.link = conditions.link
        reads, found, tensors = workload.reads, conditions, len(workload.heights)
        up, down = transfer_bytes(workload, found)
        parts = (reads.first, reads.tensor, reads.offset, reads.ends, reads.starts)
        network = Network(*[np.array(part, np.int64) for part in (workload.heights, *parts, workload.results)])
        robot = side_of(found.robot_ms, found.active_robot, up, found.robot_transfer_ms)
        server = side_of(found.server_ms, found.active_server, down, found.server_transfer_ms)
        times, limits = np.empty((4, tensors)), np.empty((2, tensors), np.int64)
        self._follow = follow
        self._progress = Progress(times[0], times[1], times[2], times[3], limits[0], limits[1], np.empty(6))
        rate, delay = float(found.link.bytes_per_ms), float(found.link.delay_ms)
        self._arguments = tuple(network), tuple(robot), tuple(server), rate, delay, tuple(self._progress)

    def end(self, rows: Integers) -> float:
        """Return the milliseconds until the robot has the outputs.

        For ``rows``, int64 [operators], see :meth:`Workload.rows_of`.
        """
        self._follow(rows, *self._arguments)
        return float(self._progress.total[0])

    def times(self, rows: Integers) -> Times:
        """Compute what :meth:`end` computes, and return it with everything that leads to it."""
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


def transfer_bytes(workload: RowWork, conditions: Conditions) -> tuple[Numbers, Numbers]:
    """Return the bytes of one row of each tensor on its way to the server, and to the robot, float64 [tensors] each.

    What the other side lacks is sent: of the input what the server has missed, of other tensors what either side
    computes.
    """
    up = np.maximum(conditions.active_robot, conditions.active_server)
    down = up.copy()
    up[0] = conditions.active_server[0]
    return _row_bytes(workload, up, conditions), _row_bytes(workload, down, conditions)


def _row_bytes(workload: RowWork, active: Numbers, conditions: Conditions) -> Numbers:
    """Return the bytes of one row on the wire, float64 [tensors]: a flag per pixel, and the values of active pixels."""
    values = workload.row_values * active * np.where(workload.is_levels, 1.0, conditions.value_bytes)
    values[0] = workload.row_pixels[0] * active[0] * conditions.input_pixel_bytes
    bits = workload.row_pixels * _BITS
    bits[0] *= _PACKED
    return np.asarray(values + bits, np.float64)
