# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Approximates active sets by rectangles, to tell without any frame how many pixels a plan would compute.

Several cases are followed at once, each with a rectangle in the middle of the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.access_pattern import Footprint
from cacheinf_ros.engine.execution.active import ActiveSet, Size, middle
from cacheinf_ros.engine.execution.plan import Plan
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.execution.steps import Call, Difference, FillIfAny, Propagate, Union
from cacheinf_ros.graph import Window

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regions:
    """A rectangle of a map for each case; all arrays are int64 [cases].

    Attributes:
        first, last: (y, x) of the first and the last pixel of the rectangle, both included.
        count: how many pixels are active, which are fewer than the rectangle's in a remainder; 0: none.
    """

    first: tuple[Positions, Positions]
    last: tuple[Positions, Positions]
    count: Positions

    @classmethod
    def of(cls, first: tuple[Positions, Positions], last: tuple[Positions, Positions], some: Positions) -> Regions:
        """Build rectangles from corners, empty where ``some`` is 0."""
        height, width = (np.maximum(b - a + 1, 0) for a, b in zip(first, last, strict=True))
        return cls(first=first, last=last, count=height * width * (some > 0))

    @classmethod
    def whole(cls, size: Size, some: Positions) -> Regions:
        """Build rectangles that cover all of a map of (height, width), empty where ``some`` is 0."""
        zero = np.zeros_like(some)
        return cls.of((zero, zero), (zero + size[0] - 1, zero + size[1] - 1), some)

    @classmethod
    def in_the_middle(cls, size: Size, shares: Iterable[float]) -> Regions:
        """Build rectangles in the middle of a map of (height, width) with these shares of its pixels."""
        places = [middle(size, share) for share in shares]
        top, bottom, left, right = np.array([(y.start, y.stop, x.start, x.stop) for y, x in places]).T
        return cls.of((top, left), (bottom - 1, right - 1), np.ones_like(top))

    def united(self, other: Regions) -> Regions:
        """Return the smallest rectangles around these and the others."""
        mine, its = self.count > 0, other.count > 0
        first = tuple(_chosen(mine, its, a, b, np.minimum) for a, b in zip(self.first, other.first, strict=True))
        last = tuple(_chosen(mine, its, a, b, np.maximum) for a, b in zip(self.last, other.last, strict=True))
        return Regions.of((first[0], first[1]), (last[0], last[1]), self.count + other.count)

    def without(self, other: Regions) -> Regions:
        """Return what is left of these rectangles without the others: the same rectangles with fewer pixels."""
        common = np.ones_like(self.count)
        for a, b, c, d in zip(self.first, self.last, other.first, other.last, strict=True):
            common *= np.maximum(np.minimum(b, d) - np.maximum(a, c) + 1, 0)
        rest = np.maximum(self.count - np.where(other.count > 0, common, 0), 0)
        return Regions(first=self.first, last=self.last, count=rest)

    def propagated(self, bounds: tuple[_Bounds, _Bounds]) -> Regions:
        """Return the outputs that read any pixel of these rectangles."""
        spans = [b.readers(f, t) for b, f, t in zip(bounds, self.first, self.last, strict=True)]
        return Regions.of((spans[0][0], spans[1][0]), (spans[0][1], spans[1][1]), self.count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Bounds:
    """The first and the last input that each output along an axis reads; neither ever decreases."""

    first: Positions
    last: Positions

    def readers(self, first: Positions, last: Positions) -> tuple[Positions, Positions]:
        """Return the first and the last output that read one of these inputs."""
        return np.searchsorted(self.last, first), np.searchsorted(self.first, last, "right") - 1


class RegionModel:
    """Follows rectangles through plans of one graph."""

    def __init__(self, shares: Sequence[float]) -> None:
        """Set the cases; ``shares``: for each case, the share of the input's pixels that change."""
        self._shares = tuple(shares)
        self._bounds: dict[Footprint, tuple[_Bounds, _Bounds]] = {}

    def counts(self, plan: Plan) -> dict[ActiveSet, Positions]:
        """Return, by set of the plan, the number of its pixels in each case, int64 [cases]."""
        regions = self.follow(plan, Regions.in_the_middle(plan.input.size, self._shares))
        return {active: region.count for active, region in regions.items()}

    def follow(self, plan: Plan, changed: Regions) -> dict[ActiveSet, Regions]:
        """Return, by set of the plan, what becomes active when these regions of the input have changed."""
        regions = {plan.input: changed}
        for step in plan.steps:
            if isinstance(step, Propagate):
                regions[step.target] = regions[step.source].propagated(self._of(step.footprint))
            elif isinstance(step, Union):
                regions[step.target] = regions[step.first].united(regions[step.second])
            elif isinstance(step, Difference):
                regions[step.target] = regions[step.source].without(regions[step.without])
            elif isinstance(step, FillIfAny):
                regions[step.target] = Regions.whole(step.target.size, regions[step.source].count)
            elif isinstance(step, Call):
                some = np.max([regions[source].count for source in step.inputs], axis=0)
                regions[step.changed] = Regions.whole(step.changed.size, some)
        return regions

    def _of(self, footprint: Footprint) -> tuple[_Bounds, _Bounds]:
        if footprint not in self._bounds:
            self._bounds[footprint] = _bounds(
                TapTable.of_window(footprint) if isinstance(footprint, Window) else footprint
            )
        return self._bounds[footprint]


def _bounds(table: TapTable) -> tuple[_Bounds, _Bounds]:
    return _axis_bounds(table.rows), _axis_bounds(table.columns)


def _axis_bounds(positions: NDArray[np.int32]) -> _Bounds:
    """Return the bounds of positions, int32 [outputs, taps].

    An output that reads nothing inside the image takes its bounds from its neighbours, so it is found only with both.
    """
    inside, far = positions >= 0, np.iinfo(np.int32).max
    first = np.where(inside, positions, far).min(axis=1).astype(np.int64)
    last = np.where(inside, positions, -1).max(axis=1).astype(np.int64)
    return _Bounds(first=np.minimum.accumulate(first[::-1])[::-1], last=np.maximum.accumulate(last))


def _chosen(mine: NDArray[np.bool_], its: NDArray[np.bool_], a: Positions, b: Positions, both: np.ufunc) -> Positions:
    return np.where(mine & its, both(a, b), np.where(mine, a, b))
