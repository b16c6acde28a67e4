# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a network demands of the machines that compute it: pixels, dependent rows, and bytes.

It is the same for both machines, and known from the graph alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import Layout, Partition, PartitionSpace
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.execution.plan import Plan
from cacheinf_ros.engine.execution.steps import Call, Compute
from cacheinf_ros.engine.rematerialisation import RegionModel
from cacheinf_ros.offload.planning.activity import Activity

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]

REUSE = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
"""Reuse ratios of the input at which the active share of every tensor is known; linear in between."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reads:
    """The rows of tensors that each operator reads, as arrays.

    Attributes:
        first: int64 [operators + 1]: where each operator's entries begin.
        tensor: int64 [entries]: the tensor that is read; 0 is the graph's input, 1 the first operator's output.
        offset: int64 [entries]: where the entry's part of ``ends`` and ``starts`` begins: one value per row.
        ends, starts: see :class:`.partition.Read`.
    """

    first: Integers
    tensor: Integers
    offset: Integers
    ends: Integers
    starts: Integers


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots, because a subclass has attributes of its own
class RowWork:
    """What a search for schedules knows of a network: plain arrays, which can be passed to another process.

    Tensors are numbered: 0 is the input, i + 1 the output of operator i.

    Attributes:
        heights: int64 [tensors]: rows of each tensor.
        row_values: int64 [tensors]: numbers in a row.
        row_pixels: int64 [tensors]: pixels in a row.
        is_levels: bool [tensors]: whether a tensor's numbers are levels, with one byte in memory and on any wire.
        groups: int64 [operators]: operators with the same number are computed whole and at the same side; -1: divided
            by rows.
        results: int64: the tensors that the network's outputs consist of.
        reads: see :class:`Reads`.
        active: float64 [reuse ratios, tensors]: share of the pixels that is computed, at :data:`REUSE`, where the
            pixels that are not reusable lie together.
    """

    heights: Integers
    row_values: Integers
    row_pixels: Integers
    is_levels: NDArray[np.bool_]
    groups: Integers
    results: Integers
    reads: Reads
    active: Numbers

    def active_at(self, reuse_ratio: float) -> Numbers:
        """Return the share of the pixels that is computed, float64 [tensors], at a reuse ratio of the input."""
        last = len(REUSE) - 1
        place = float(np.interp(reuse_ratio, REUSE, np.arange(last + 1)))
        below = min(int(place), last - 1)
        part = place - below
        return np.asarray((1 - part) * self.active[below] + part * self.active[below + 1], np.float64)


class Workload(RowWork):
    """Everything there is to compute in one network.

    Attributes:
        space: what can be split.
        names: the operators' outputs, in the order of execution.
        activity: the active shares of any frame.
    """

    def __init__(self, layout: Layout, space: PartitionSpace | None = None) -> None:
        """Prepare; ``space`` is needed where not all maps are kept: operators are then those whose outputs are kept."""
        self.space = space or PartitionSpace(layout)
        self.names = tuple(self.space.heights)
        index = self.space.numbers
        heights, row_pixels, channels = np.ascontiguousarray(np.array(list(self.space.shapes.values()), np.int64).T)
        groups = np.full(len(self.names), -1, np.int64)
        for number, group in enumerate(self.space.groups):
            groups[[index[name] - 1 for name in group]] = number
        plan = Planner(layout).plan()
        sets = _sets(plan, index)
        super().__init__(
            heights=heights,
            row_values=row_pixels * channels,
            row_pixels=row_pixels,
            is_levels=np.array([name in self.space.levels for name in self.space.shapes]),
            groups=groups,
            results=np.array([index[name] for name in self.space.results], np.int64),
            reads=_reads(self.space),
            active=_active(plan, sets),
        )
        self._numbers = (self.heights * self.row_values)[1:].astype(np.float64)
        self.activity = Activity(plan, sets)

    def reuse_at(self, active: Numbers) -> float:
        """Return the reuse ratio of the input that makes as many numbers active, where the active pixels lie together.

        Args:
            active: float64 [tensors]: share of the pixels that is computed.
        """
        computed = self.active[:, 1:] @ self._numbers
        return float(np.interp(active[1:] @ self._numbers, computed[::-1], REUSE[::-1]))

    def rows_of(self, partition: Partition) -> Integers:
        """Return the rows at the robot in a partition, int64 [operators]."""
        return np.array([partition.robot_rows[name] for name in self.names], np.int64)

    def partition_of(self, rows: Integers) -> Partition:
        """Return the partition with these rows at the robot, int64 [operators]."""
        return Partition(robot_rows=dict(zip(self.names, rows.tolist(), strict=True)))


def tensor_bytes(work: RowWork) -> Numbers:
    """Return the bytes that each tensor takes in memory, float64 [tensors]."""
    return np.asarray(work.heights * work.row_values * np.where(work.is_levels, 1.0, 4.0), np.float64)


def _reads(space: PartitionSpace) -> Reads:
    first, tensor, offset, length = [0], [], [], 0
    tables = []
    for entries in space.reads.values():
        for leaf, read in entries:
            tensor.append(space.numbers[leaf])
            offset.append(length)
            tables.append(read)
            length += len(read.ends)
        first.append(len(tensor))
    return Reads(
        first=np.array(first, np.int64),
        tensor=np.array(tensor, np.int64),
        offset=np.array(offset, np.int64),
        ends=np.concatenate([read.ends for read in tables]),
        starts=np.concatenate([read.starts for read in tables]),
    )


def _sets(plan: Plan, index: dict[str, int]) -> dict[int, ActiveSet]:
    """Return, by tensor, what of it is computed; an operator of kind Call computes its output completely."""
    return {
        index[step.operator.output]: step.active if isinstance(step, Compute) else step.changed
        for step in plan.steps
        if isinstance(step, Compute | Call) and step.operator.output in index
    }


def _active(plan: Plan, sets: dict[int, ActiveSet]) -> Numbers:
    """Return the active shares at :data:`REUSE`, float64 [reuse ratios, tensors].

    Changes are taken to be a rectangle in the middle of the frame. Without reuse everything is active, at a reuse
    ratio of 1 nothing.
    """
    counts = RegionModel([1 - ratio for ratio in REUSE]).counts(plan)
    found = np.ones((len(REUSE), 1 + len(sets)))
    found[:, 0] = 1 - np.array(REUSE)
    for tensor, active in sets.items():
        found[:, tensor] = counts[active] / active.pixels
    found[-1] = 0.0
    return found
