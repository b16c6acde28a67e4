# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Predicts the cost of keeping only some of the maps between frames (CacheInf section 4.3.1, equation 8)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.cost import CostModel
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.execution.steps import Compute
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.engine.lifetimes import lifetimes, map_bytes
from cacheinf_ros.engine.rematerialisation.regions import RegionModel
from cacheinf_ros.errors import EngineError
from cacheinf_ros.memory import least_for_offsets

CASES = 10
"""The number w of reuse ratios in equation 8: 0, 1/w, ..., (w - 1)/w."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The time and memory that a frame takes when some of the maps are kept.

    Attributes:
        microseconds: the time for computing and for filling active sets, as the mean over the reuse ratios.
        cache_bytes: the bytes of the maps that are kept although they need not be.
        arena_bytes: the bytes of the block that holds the dropped maps; a lower bound, which is mostly reached.
    """

    microseconds: float
    cache_bytes: int
    arena_bytes: int

    @property
    def bytes(self) -> int:
        """The bytes that kept and dropped maps take together."""
        return self.cache_bytes + self.arena_bytes


class Assessor:
    """Predicts what a choice of kept maps costs, from the measured cost of each operator on this machine.

    Changes are assumed to be a rectangle in the middle of the frame.

    Attributes:
        names: the maps that need not be kept, in the order in which they are computed, without those of operators of
            unknown cost, which torch computes slowly.
        fixed_bytes: the bytes of those, which are kept in addition to what is chosen.
    """

    def __init__(self, layout: Layout, cost: CostModel) -> None:
        """Prepare the predictions; raises :class:`EngineError` where no operator's cost is known."""
        if not cost.curves:
            raise EngineError(
                "which caches to merge is decided by what operators cost, which is measured of compiled kernels only; "
                "use them (device cpu, `make build`), or set cache.keep to all and cache.budget_mb to -1 or 0"
            )
        operators = [o for o in layout.operators if o.output in layout.graph.tensors]  # no mere copies
        unknown = {layout.root(o.output) for o in operators if o.output not in cost.curves}
        self.names = tuple(name for name in droppable(layout) if name not in unknown)
        self.fixed_bytes = sum(map_bytes(layout, name) for name in droppable(layout) if name in unknown)
        self._layout = layout
        self._cost = cost
        self._planner = Planner(layout)
        self._regions = RegionModel([1 - j / CASES for j in range(CASES)])
        self._bytes = {name: map_bytes(layout, name) for name in self.names}
        self._known: dict[Caching, Assessment] = {}

    @property
    def dense(self) -> Assessment:
        """The assessment of dense execution, which keeps nothing."""
        return self._assess(Caching.nothing(self._layout))

    def __call__(self, dropped: Set[str]) -> Assessment:
        """Assess keeping all maps except the dropped ones."""
        return self._assess(Caching(dropped=frozenset(dropped)))

    def bytes_of(self, name: str) -> int:
        """Return how many bytes one of the maps takes."""
        return self._bytes[name]

    def _assess(self, caching: Caching) -> Assessment:
        if caching not in self._known:
            self._known[caching] = self._computed(caching)
        return self._known[caching]

    def _computed(self, caching: Caching) -> Assessment:
        plan = self._planner.plan(caching)
        counts = self._regions.counts(plan)
        took = np.zeros(CASES)
        for step in plan.steps:
            if isinstance(step, Compute):
                curve = self._cost.curves.get(step.operator.output)
                if curve is not None:
                    took += curve.predict_all(counts[step.active] / step.active.pixels)
        records = lifetimes(plan.steps, self._layout, caching)
        return Assessment(
            microseconds=float(took.mean()) + self._cost.propagation_ns * plan.propagated_pixels / 1e3,
            cache_bytes=sum(size for name, size in self._bytes.items() if name not in caching.dropped),
            arena_bytes=least_for_offsets(records),
        )
