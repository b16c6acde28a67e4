# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Divides consecutive operators into strips, so that what one writes is read while it is still in the CPU's caches.

In each strip every operator computes the lines that the next operators still lack, so that no line is computed twice
and every value is the same bit for bit. A map that no other operator reads never exists as a whole: a buffer holds the
lines that are still needed, and slides down the map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cacheinf_ros.engine.execution.lines import lines_read
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph.ir import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Computes some lines of an operator's output, which is given by name."""

    output: str
    lines: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """Lets the buffer of a map begin at the first of these lines, and moves them there; the range may be empty."""

    map: str
    lines: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive operators of a plan that are computed in strips.

    Attributes:
        outputs: the operators' outputs, in order.
        work: what is done, in order.
        buffers: by map that only these operators read, how many lines its buffer holds. Buffers begin at line 0.
        lies_in: the buffered map in which each input or output of the operators lies, and each such map itself, as a
            concatenation of which only parts are read is no operator's input.
    """

    outputs: tuple[str, ...]
    work: tuple[Part | Slide, ...]
    buffers: Mapping[str, int]
    lies_in: Mapping[str, str]


class Division:
    """One way to divide operators into strips.

    Attributes:
        count: the number of strips.
    """

    def __init__(self, layout: Layout, operators: Sequence[Operator], count: int) -> None:
        self.count = count
        self._layout = layout
        self._operators = operators
        self._roots = list(dict.fromkeys(layout.root(name) for o in operators for name in (o.output, *o.inputs)))
        self._strips = list(_parts(layout, operators, count))

    @cached_property
    def working_set(self) -> int:
        """The most bytes that any strip takes: of the lines that it works with, and of those that later ones reread."""
        return max(
            sum(_line_bytes(self._layout, root) * len(lines) for root, lines in alive.items()) for alive in self._alive
        )

    def segment(self, private: Sequence[str]) -> Segment:
        """Return the work of all strips; ``private``: the maps that only these operators read and write."""
        buffers = {root: self._buffer_lines(root) for root in private}
        first = dict.fromkeys(private, 0)
        work: list[Part | Slide] = []
        for strip, parts in enumerate(self._strips):
            for root in private:
                needed = self._alive[strip][root]
                if needed.stop - first[root] > buffers[root]:
                    work.append(Slide(map=root, lines=self._kept(root, strip)))
                    first[root] = needed.start
            work += parts
        names = (*private, *(name for o in self._operators for name in (o.output, *o.inputs)))
        return Segment(
            outputs=tuple(operator.output for operator in self._operators),
            work=tuple(work),
            buffers=buffers,
            lies_in={name: self._layout.root(name) for name in names if self._layout.root(name) in buffers},
        )

    @cached_property
    def _alive(self) -> list[dict[str, range]]:
        """By strip and map, the lines from the first that is used from now on to the last that has been used."""
        first = {root: self._layout.spec(root).size[0] for root in self._roots}
        firsts: list[dict[str, int]] = []
        for parts in reversed(self._strips):
            for root, lines in self._touched(parts):
                first[root] = min(first[root], lines.start)
            firsts.append(dict(first))
        end = dict.fromkeys(self._roots, 0)
        alive = []
        for parts, first in zip(self._strips, reversed(firsts), strict=True):
            for root, lines in self._touched(parts):
                end[root] = max(end[root], lines.stop)
            alive.append({root: range(min(first[root], end[root]), end[root]) for root in self._roots})
        return alive

    def _touched(self, parts: Sequence[Part]) -> Iterator[tuple[str, range]]:
        operators = {operator.output: operator for operator in self._operators}
        for part in parts:
            operator = operators[part.output]
            yield self._layout.root(part.output), part.lines
            for position, name in enumerate(operator.inputs):
                if lines := lines_read(self._layout, operator, position, part.lines):
                    yield self._layout.root(name), lines

    def _kept(self, root: str, strip: int) -> range:
        """Return the lines that earlier strips have computed and that are needed in this strip or later."""
        first = self._alive[strip][root].start
        return range(first, max(first, self._alive[strip - 1][root].stop if strip else 0))

    def _buffer_lines(self, root: str) -> int:
        """Return how many lines a buffer needs: a strip's, and the kept ones once more, as moves must not overlap."""
        height, width = self._layout.spec(root).size
        lines = max(len(self._alive[strip][root]) + len(self._kept(root, strip)) for strip in range(self.count))
        least = 2 if width == 1 else 1  # kernels would broadcast a buffer of a single pixel to every pixel
        return min(max(lines, least), height)


def _line_bytes(layout: Layout, name: str) -> int:
    """Return how many bytes a line of a map takes."""
    spec = layout.spec(name)
    return spec.value_bytes * spec.channels * spec.size[1]


def _parts(layout: Layout, operators: Sequence[Operator], count: int) -> Iterator[list[Part]]:
    """Yield what each strip computes: even parts of outputs that none of these operators reads, and what those need."""
    place = {operator.output: index for index, operator in enumerate(operators)}
    makers = [[_makers(layout, place, index, name) for name in o.inputs] for index, o in enumerate(operators)]
    read = {maker for inputs in makers for found in inputs for maker in found}
    heights = [layout.spec(operator.output).size[0] for operator in operators]
    done = [0] * len(operators)
    for strip in range(1, count + 1):
        is_last = strip == count
        needed = [
            height if is_last else so_far if index in read else height * strip // count
            for index, (height, so_far) in enumerate(zip(heights, done, strict=True))
        ]
        for index in reversed(range(len(operators))):
            if needed[index] > done[index]:
                for position, found in enumerate(makers[index]):
                    end = lines_read(layout, operators[index], position, range(done[index], needed[index])).stop
                    for maker in found:
                        needed[maker] = max(needed[maker], end)
        yield [
            Part(output=operator.output, lines=range(first, end))
            for operator, first, end in zip(operators, done, needed, strict=True)
            if end > first
        ]
        done = needed


def _makers(layout: Layout, place: Mapping[str, int], index: int, name: str) -> list[int]:
    """Return the positions of the operators before this one that compute a tensor or parts of it."""
    return [place[leaf] for leaf in layout.leaves.get(name, (name,)) if place.get(leaf, index) < index]
