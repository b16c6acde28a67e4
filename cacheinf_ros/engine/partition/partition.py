# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The rows that two machines share the work by: of each operator's output the robot computes the first ones, the server
the rest (Hybrid-Parallel; CacheInf section 4.3.2).

Where an operator at one side reads rows that the other side has computed, these cross the link; with them cross the
rows of their neighbourhood that its windows reach. Maps that are not kept between frames belong to no side and never
cross: each side computes what it needs of them from maps that are kept (equation 9's third constraint: the memory is
bounded at both ends by what is kept).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.access_pattern import AccessPattern, access_patterns
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Window, graph_hash
from cacheinf_ros.graph.ir import Conv, Convert, Global, GlobalMean, Operator

Rows = tuple[int, int]
"""The first one, and the one behind the last."""


class Side(Enum):
    """Who computes."""

    ROBOT = "robot"
    SERVER = "server"

    @property
    def other(self) -> Side:
        """The one at the other end of the link."""
        return Side.SERVER if self is Side.ROBOT else Side.ROBOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Who computes what.

    Attributes:
        robot_rows: by operator's output, how many of its rows the robot computes: the first ones.
    """

    robot_rows: Mapping[str, int]

    def rows_of(self, output: str, height: int, side: Side) -> Rows:
        """The rows that a side computes of an operator's output, which has so many."""
        boundary = self.robot_rows[output]
        return (0, boundary) if side is Side.ROBOT else (boundary, height)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Rows of a tensor that one side reads and the other has.

    Attributes:
        tensor: the graph's input, or an operator's output.
        to: who reads them.
    """

    tensor: str
    to: Side
    rows: Rows


class PartitionSpace:
    """What can be split of a graph, and what a partition makes necessary.

    Attributes:
        dropped: the maps that neither side keeps; operators that compute them have no rows at either side, and are not
            meant below.
        levels: the maps that are levels: a number is one byte, here and on the wire.
        shapes: of the graph's input and of each operator's output, (rows, pixels in a row, numbers in a pixel); what is
            no feature map is one pixel.
        numbers: of the same, in this order, from 0.
        heights: the rows of the operators' outputs.
        whole: the outputs that only one side can compute.
        costly: the outputs that convolutions compute, which take nearly all of the time; all, where there are none.
        groups: of such outputs, those that must be computed at the same side.
        reads: by operator's output, what it reads, itself or through maps that are dropped: other operators' outputs or
            the graph's input, and of these which rows.
        results: the operators' outputs that the graph's outputs consist of.
    """

    def __init__(self, layout: Layout, dropped: Collection[str] = ()) -> None:
        self.dropped = frozenset(dropped)
        self._graph = layout.graph
        operators = [o for o in layout.operators if layout.root(o.output) not in self.dropped]
        outputs = [tensor for _, tensor in layout.graph.outputs]
        self.results = tuple(dict.fromkeys(leaf for tensor in outputs for leaf in layout.leaves[tensor]))
        tensors = (layout.graph.input, *(operator.output for operator in operators))
        self.shapes = {name: _shape(layout, name) for name in tensors}
        self.levels = frozenset(name for name in tensors if name in layout.maps and layout.spec(name).levels)
        self.numbers = {name: i for i, name in enumerate(tensors)}
        self.heights = {operator.output: self.shapes[operator.output][0] for operator in operators}
        self.whole = frozenset(o.output for o in operators if isinstance(o, (Global, GlobalMean)))
        self.costly = frozenset(o.output for o in operators if isinstance(o, Conv)) or frozenset(self.heights)
        self.reads = _all_reads(layout, operators)
        self.groups = _groups(layout)

    @cached_property
    def levels_digest(self) -> str:
        """What the graph is told by from those of another precision or other scales, where it has levels or conversions
        (:mod:`~cacheinf_ros.engine.float_conversions`), which others have not; otherwise empty. Takes some time.
        """
        is_own = self.levels or any(isinstance(operator, Convert) for operator in self._graph.operators)
        return graph_hash(self._graph) if is_own else ""

    def everything_at(self, side: Side) -> Partition:
        """One side computes all; the results cross where that is the server."""
        return Partition(robot_rows={name: rows if side is Side.ROBOT else 0 for name, rows in self.heights.items()})

    def check(self, partition: Partition) -> None:
        """Raises :class:`EngineError` for what cannot be executed."""
        for name, height in self.heights.items():
            if not 0 <= partition.robot_rows.get(name, -1) <= height:
                raise EngineError(f"a partition must say how many of the {height} rows of {name!r} the robot computes")
        for group in self.groups:
            shares = {partition.robot_rows[name] / self.heights[name] for name in group}
            if shares not in ({0.0}, {1.0}):
                raise EngineError(f"these operators can only be computed together, at one side: {', '.join(group)}")

    def transfers(self, partition: Partition) -> tuple[Transfer, ...]:
        """What one side reads of what the other has, in the order in which it is computed."""
        height = {name: rows for name, (rows, _, _) in self.shapes.items()}
        wanted = {name: 0 for name in height}  # by the robot: rows before this one
        left_out = dict(height)  # by the server: rows before this one
        for name, rows in self.heights.items():
            first_behind = partition.robot_rows[name]
            for leaf, read in self.reads[name]:
                if first_behind:
                    wanted[leaf] = max(wanted[leaf], read.end(first_behind))
                if first_behind < rows:
                    left_out[leaf] = min(left_out[leaf], read.start(first_behind))
        for leaf in self.results:
            wanted[leaf] = height[leaf]
        found = []
        for name in height:
            boundary = partition.robot_rows.get(name, height[name])
            if wanted[name] > boundary:
                found.append(Transfer(tensor=name, to=Side.ROBOT, rows=(boundary, wanted[name])))
            if left_out[name] < boundary:
                found.append(Transfer(tensor=name, to=Side.SERVER, rows=(left_out[name], boundary)))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """Which rows of an input the rows of an output need.

    Attributes:
        ends: int64 [rows], by output row: one behind the last input row that it or any row above it reads.
        starts: the first input row that it or any row below it reads.
    """

    ends: NDArray[np.int64]
    starts: NDArray[np.int64]

    def end(self, rows: int) -> int:
        """One behind the last input row that the first ``rows`` outputs read."""
        return int(self.ends[rows - 1])

    def start(self, row: int) -> int:
        """The first input row that outputs from this one on read."""
        return int(self.starts[row])

    def through(self, inner: Read) -> Read:
        """What the outputs need of the input of that input; ``inner``: what that reads of it."""
        behind = np.append(inner.starts, max(inner.starts[-1], inner.ends[-1]))  # for rows that read nothing
        before = np.insert(inner.ends, 0, 0)
        return Read(ends=before[self.ends], starts=behind[self.starts])

    def united(self, other: Read) -> Read:
        """Both."""
        return Read(ends=np.maximum(self.ends, other.ends), starts=np.minimum(self.starts, other.starts))


def _all_reads(layout: Layout, kept: Sequence[Operator]) -> dict[str, list[tuple[str, Read]]]:
    """By output of an operator that is kept: of whatever else is kept, what it reads."""
    patterns, wanted = access_patterns(layout), {operator.output for operator in kept}
    found: dict[str, dict[str, Read]] = {}
    for operator in layout.operators:
        own: dict[str, Read] = {}
        for leaf, read in _reads(layout, operator, patterns.get(operator.output)):
            steps = {leaf: read}
            if leaf in found and leaf not in wanted:
                steps = {source: read.through(inner) for source, inner in found[leaf].items()}
            for source, rows in steps.items():
                own[source] = own[source].united(rows) if source in own else rows
        found[operator.output] = own
    return {name: list(reads.items()) for name, reads in found.items() if name in wanted}


def _reads(layout: Layout, operator: Operator, pattern: AccessPattern | None) -> list[tuple[str, Read]]:
    """What an operator reads of other operators' outputs."""
    height, footprint = _height(layout, operator.output), pattern.forward if pattern else None
    found = []
    for position, name in enumerate(operator.inputs):
        for leaf in layout.leaves[name]:
            rows = _height(layout, leaf)
            if isinstance(operator, (Global, GlobalMean)) or (rows != height and not (position == 0 and footprint)):
                read = Read(ends=np.full(height, rows), starts=np.zeros(height, np.int64))
            elif position == 0 and footprint:
                table = TapTable.of_window(footprint) if isinstance(footprint, Window) else footprint
                read = _read(table.rows, rows)
            else:
                read = Read(ends=np.arange(1, height + 1), starts=np.arange(height))
            found.append((leaf, read))
    return found


def _read(positions: NDArray[np.int32], in_height: int) -> Read:
    """``positions``: int32 [rows, taps], negative beside the image."""
    inside = positions >= 0
    last = np.where(inside, positions, -1).max(axis=1) + 1
    first = np.where(inside, positions, in_height).min(axis=1)
    return Read(
        ends=np.maximum.accumulate(last).astype(np.int64),
        starts=np.minimum.accumulate(first[::-1])[::-1].astype(np.int64),
    )


def _height(layout: Layout, name: str) -> int:
    return _shape(layout, name)[0]


def _shape(layout: Layout, name: str) -> tuple[int, int, int]:
    if name in layout.maps:
        spec = layout.spec(name)
        return *spec.size, spec.channels
    return 1, 1, math.prod(layout.graph.tensors[name].shape)


def _groups(layout: Layout) -> list[list[str]]:
    """Outputs that belong to one side: of operators that are not split, joined by what is no feature map."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for operator in layout.operators:
        if isinstance(operator, (Global, GlobalMean)):
            leader[operator.output] = operator.output
            for name in operator.inputs:
                for leaf in layout.leaves[name]:
                    if leaf not in layout.maps:
                        leader[find(leaf)] = operator.output
    groups: dict[str, list[str]] = {}
    for name in leader:
        groups.setdefault(find(name), []).append(name)
    return list(groups.values())
