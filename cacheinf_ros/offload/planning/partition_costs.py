# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The times that a network's operators take on two machines, and that data takes on the link between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cacheinf_ros.engine import Caching, Layout, PartitionSpace
from cacheinf_ros.engine.cost import POINTS, CostModel
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.execution.steps import Compute
from cacheinf_ros.engine.rematerialisation import RegionModel
from cacheinf_ros.offload.planning.workload import Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The link between robot and server, with separate directions (full duplex).

    Attributes:
        mbit_s: 10**6 bits per second in each direction.
        delay_ms: the time that the smallest message takes from sender to receiver.
    """

    mbit_s: float
    delay_ms: float = 1.0

    @property
    def bytes_per_ms(self) -> float:
        """How many bytes of payload cross per millisecond."""
        return self.mbit_s * 125.0


def profile(layout: Layout, space: PartitionSpace, cost: CostModel) -> Numbers:
    """Return the milliseconds of each operator whose output is kept, float64 [operators, points], at :data:`POINTS`.

    They include the operators that recompute the maps that it reads and that are not kept. How many of their pixels
    count is taken from a change within a rectangle in the middle of the frame, so that their halo counts.
    """
    shares = np.array(POINTS)
    alone = {name: curve.predict_all(shares) / 1e3 for name, curve in cost.curves.items()}
    took = np.array([alone.get(name, np.zeros(len(POINTS))) for name in space.heights])
    return took + _anew(layout, space, cost) if space.dropped else took


def _anew(layout: Layout, space: PartitionSpace, cost: CostModel) -> Numbers:
    plan = Planner(layout).plan(Caching(dropped=space.dropped))
    counts = RegionModel(POINTS).counts(plan)
    kept = {name: i for i, name in enumerate(space.heights)}
    found, waiting = np.zeros((len(kept), len(POINTS))), np.zeros(len(POINTS))
    for step in plan.steps:
        if not isinstance(step, Compute):
            continue
        share = np.where(np.array(POINTS) > 0, counts[step.active] / step.active.pixels, 0.0)
        if step.operator.output in kept:
            found[kept[step.operator.output]] = np.interp(POINTS, share, waiting)
            waiting = np.zeros(len(POINTS))
        elif step.operator.output in cost.curves:
            waiting = waiting + cost.curves[step.operator.output].predict_all(share) / 1e3
    return found


def at_share(took: Numbers, share: Numbers) -> Numbers:
    """Return the milliseconds, float64 [operators], of these shares of the operators' pixels, by a :func:`profile`."""
    return np.array([np.interp(part, POINTS, curve) for part, curve in zip(share, took, strict=True)])
