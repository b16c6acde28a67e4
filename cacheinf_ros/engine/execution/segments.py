# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses which operators of a dense plan are computed strip by strip: where maps do not fit into the CPU's caches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.execution.steps import Call, Compute, Step
from cacheinf_ros.engine.execution.strips import Division, Segment
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.engine.lifetimes import ALIGNMENT, lifetimes, map_bytes
from cacheinf_ros.graph.ir import (
    ChannelNorm,
    ChannelSoftmax,
    Conv,
    Convert,
    Elementwise,
    Operator,
    PixelShuffle,
    Pool,
    Resample,
    Select,
)
from cacheinf_ros.memory import TensorRecord, aligned

_BY_LINES = (ChannelNorm, ChannelSoftmax, Conv, Convert, Elementwise, PixelShuffle, Pool, Resample, Select)
_MORE_STRIPS = 1.25  # the factor by which the number of strips is raised until their lines fit
_SMALL_PART = 8  # strips that do not fit either must take at most 1 / 8 of the bytes of the whole maps


class Segmenting:
    """Divides the operators of one plan in which everything is computed and nothing is held back."""

    def __init__(self, steps: Sequence[Step], layout: Layout, caching: Caching, cache_bytes: int) -> None:
        """Find the lifetimes of the plan's maps.

        Args:
            steps: the steps of the plan.
            layout: where the graph's tensors lie.
            caching: which maps are kept.
            cache_bytes: how many bytes of maps the CPU's caches hold while all cores compute a strip together.
        """
        self._layout = layout
        self._caching = caching
        self._cache_bytes = cache_bytes
        self._computations = [step.operator for step in steps if isinstance(step, (Compute, Call))]
        self._records = lifetimes(steps, layout, caching)
        times = range(len(self._computations))
        self._peak = max(sum(r.size for r in self._records if r.first <= time <= r.last) for time in times)

    def segments(self) -> list[Segment]:
        """Return, in order, the segments that cause less memory traffic in strips and take no more memory."""
        found = (self._segment(times) for times in self._chains() if len(times) > 1)
        return [segment for segment in found if segment is not None]

    def _chains(self) -> Iterator[range]:
        """Yield ranges of consecutive operators that can work in strips, divided where live maps take least memory."""
        between = [
            sum(record.size for record in self._records if record.first <= time < record.last)
            for time in range(len(self._computations))
        ]
        first = 0
        for time, operator in enumerate(self._computations):
            if not self._is_by_lines(operator):
                yield range(first, time)
                first = time + 1
            elif 0 < time < len(between) - 1 and between[time - 1] > between[time] <= between[time + 1]:
                yield range(first, time + 1)
                first = time + 1
        yield range(first, len(self._computations))

    def _is_by_lines(self, operator: Operator) -> bool:
        return isinstance(operator, _BY_LINES) and self._layout.root(operator.output) in self._caching.dropped

    def _segment(self, times: range) -> Segment | None:
        operators = [self._computations[time] for time in times]
        division = self._fitting(operators)
        if division is None:
            return None
        alive = [record for record in self._records if record.first < times.stop and record.last >= times.start]
        private = [r.name for r in alive if r.first >= times.start and r.last < times.stop]
        segment = division.segment(private)
        return segment if sum(self._bytes(record, segment) for record in alive) <= self._peak else None

    def _fitting(self, operators: Sequence[Operator]) -> Division | None:
        """Return a division into about the fewest strips that each fit into the caches; None: strips are no gain.

        Where not even the finest strips fit, they are still worthwhile if they work with a small part of the maps.
        """
        most = min(self._layout.spec(operator.output).size[0] for operator in operators)
        whole, finest = (Division(self._layout, operators, count) for count in (1, most))
        if whole.working_set <= self._cache_bytes:
            return None
        if finest.working_set > self._cache_bytes:
            return finest if finest.working_set * _SMALL_PART <= whole.working_set else None
        division = whole
        while division.working_set > self._cache_bytes:
            count = max(division.count + 1, int(division.count * _MORE_STRIPS))
            division = Division(self._layout, operators, min(most, count))
        return division

    def _bytes(self, record: TensorRecord, segment: Segment) -> int:
        lines = segment.buffers.get(record.name)
        return record.size if lines is None else aligned(map_bytes(self._layout, record.name, lines), ALIGNMENT)
