# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Divides each operator's rows: the robot computes the first ones, the server the rest.

This follows Hybrid-Parallel, and CacheInf section 4.3.2. Where an operator at one side reads rows that the other side
has computed, including those at the boundary that its windows reach, these rows are transferred. Maps that are not kept
between frames belong to neither side and are never transferred: each side computes what it needs of them from maps that
are kept (the third constraint of equation 9: what is kept bounds the memory at both ends).
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
"""A range of rows: the first one, and the one after the last."""


class Side(Enum):
    """The machine that computes: the robot or the server."""

    ROBOT = "robot"
    SERVER = "server"

    @property
    def other(self) -> Side:
        """The side at the other end of the link."""
        return Side.SERVER if self is Side.ROBOT else Side.ROBOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Which rows each side computes.

    Attributes:
        robot_rows: by operator's output, the number of its rows that the robot computes, from the first one on.
    """

    robot_rows: Mapping[str, int]

    def rows_of(self, output: str, height: int, side: Side) -> Rows:
        """Return the rows that a side computes of an operator's output; ``height``: how many rows it has."""
        boundary = self.robot_rows[output]
        return (0, boundary) if side is Side.ROBOT else (boundary, height)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Rows of a tensor that one side has and the other reads.

    Attributes:
        tensor: the graph's input, or an operator's output.
        to: the side that reads them.
        rows: which rows.
    """

    tensor: str
    to: Side
    rows: Rows


class PartitionSpace:
    """All possible partitions of a graph, and the transfers that each of them needs.

    Attributes:
        dropped: the maps that neither side keeps; the attributes below leave out the operators that compute them.
        levels: the maps that hold levels, whose values take one byte, here and on the wire.
        shapes: (rows, pixels in a row, values in a pixel) of the graph's input and of each operator's output; a tensor
            that is no feature map is one pixel.
        numbers: the position of each of these tensors in ``shapes``, from 0.
        heights: by operator's output, its number of rows.
        whole: the outputs that only one side can compute.
        costly: the outputs of convolutions, which take nearly all of the time; all outputs where there are none.
        groups: the outputs of ``whole``, grouped such that a group must be computed at the same side.
        reads: by operator's output, the operators' outputs or graph's input that it reads, directly or through dropped
            maps, and which of their rows.
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
        """A hash that tells the graph from those with another precision or other scales; slow to compute.

        It is empty where the graph has neither levels nor conversions (:mod:`~cacheinf_ros.engine.float_conversions`).
        """
        is_own = self.levels or any(isinstance(operator, Convert) for operator in self._graph.operators)
        return graph_hash(self._graph) if is_own else ""

    def everything_at(self, side: Side) -> Partition:
        """Return the partition in which one side computes everything."""
        return Partition(robot_rows={name: rows if side is Side.ROBOT else 0 for name, rows in self.heights.items()})

    def check(self, partition: Partition) -> None:
        """Raise :class:`EngineError` for a partition that cannot be executed."""
        for name, height in self.heights.items():
            if not 0 <= partition.robot_rows.get(name, -1) <= height:
                raise EngineError(f"a partition must say how many of the {height} rows of {name!r} the robot computes")
        for group in self.groups:
            shares = {partition.robot_rows[name] / self.heights[name] for name in group}
            if shares not in ({0.0}, {1.0}):
                raise EngineError(f"these operators can only be computed together, at one side: {', '.join(group)}")

    def transfers(self, partition: Partition) -> tuple[Transfer, ...]:
        """Return the rows that each side reads of what the other has, in the order in which they are computed."""
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
    """The rows of an input that the rows of an output need.

    Attributes:
        ends: int64 [rows], by output row, one after the last input row that it or any row above it reads.
        starts: int64 [rows], by output row, the first input row that it or any row below it reads.
    """

    ends: NDArray[np.int64]
    starts: NDArray[np.int64]

    def end(self, rows: int) -> int:
        """Return one after the last input row that the first ``rows`` output rows read."""
        return int(self.ends[rows - 1])

    def start(self, row: int) -> int:
        """Return the first input row that is read by the output rows from this one on."""
        return int(self.starts[row])

    def through(self, inner: Read) -> Read:
        """Return what the outputs need of the input's own input; ``inner``: what the input reads of it."""
        behind = np.append(inner.starts, max(inner.starts[-1], inner.ends[-1]))  # and for reading nothing
        before = np.insert(inner.ends, 0, 0)
        return Read(ends=before[self.ends], starts=behind[self.starts])

    def united(self, other: Read) -> Read:
        """Return the rows that this read or the other one needs."""
        return Read(ends=np.maximum(self.ends, other.ends), starts=np.minimum(self.starts, other.starts))


def _all_reads(layout: Layout, kept: Sequence[Operator]) -> dict[str, list[tuple[str, Read]]]:
    """Return, by kept operator's output, the kept tensors that it reads, directly or through dropped maps."""
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
    """Return the outputs of other operators, or the graph's input, that an operator reads itself, and their rows."""
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
    """Build the read of an operator with taps; ``positions``: int32 [rows, taps], negative beside the image."""
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
    """Group the outputs of operators that cannot be split: those joined by a tensor that is no map stay together."""
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
