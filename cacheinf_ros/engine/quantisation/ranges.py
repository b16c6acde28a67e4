# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses which values the levels of tensors stand for, from the values that were observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import torch

from cacheinf_ros.engine.quantisation.int8_graph import keeps_values
from cacheinf_ros.engine.quantisation.observed import Observed
from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.ir import LARGEST_LEVEL, Levels, Resample

_SHRUNK = torch.linspace(1.0, 0.2, 33)  # the shares of each end of the range that are tried
_PERCENTILE = 0.9999


class RangeMethod(Enum):
    """How to choose the range of values that levels cover; values beyond it are clipped."""

    ENDS = "ends"
    """The range of all values that were seen."""
    PERCENTILE = "percentile"
    """The range of all values except one in ten thousand at each end."""
    SQUARES = "squares"
    """The range with the least mean squared error of rounding and clipping together."""


def levels_for(graph: Graph, observed: Mapping[str, Observed], method: RangeMethod) -> dict[str, Levels]:
    """Choose the levels of each tensor; tensors between which values are only moved have the same ones.

    Tensors with values that are infinite or NaN get none: they stay floats.
    """
    found: dict[str, Levels] = {}
    for group in _groups(graph, observed):
        if not all(observed[name].is_finite for name in group):
            continue
        levels = _levels([observed[name] for name in group], _fills(graph, group), method)
        found.update(dict.fromkeys(group, levels))
    exact = observed[graph.input]  # any frame may contain the extreme values
    found[graph.input] = _between(exact.low, exact.high)
    return found


def _groups(graph: Graph, names: Mapping[str, Observed]) -> list[list[str]]:
    """Group the tensors, such that those in a group must have the same levels."""
    group = {name: [name] for name in names}
    for operator in graph.operators:
        if not keeps_values(operator):
            continue
        for name in operator.inputs:
            first, second = group.get(name), group.get(operator.output)
            if first is None or second is None or first is second or name == graph.input:
                continue
            first += second
            group.update(dict.fromkeys(second, first))
    return list({id(members): members for members in group.values()}.values())


def _fills(graph: Graph, group: Sequence[str]) -> list[float]:
    fills = [o.fill for o in graph.operators if isinstance(o, Resample) and o.output in group]
    return [fill for fill in fills if abs(fill) != float("inf")]


def _levels(members: Sequence[Observed], fills: Sequence[float], method: RangeMethod) -> Levels:
    low, high = min(m.low for m in members), max(m.high for m in members)
    samples = torch.cat([m.samples for m in members])
    if method is RangeMethod.PERCENTILE:
        ordered = samples.sort().values
        rest = int((1 - _PERCENTILE) * len(ordered))
        low, high = max(low, min(0.0, float(ordered[rest]))), min(high, max(0.0, float(ordered[-1 - rest])))
    elif method is RangeMethod.SQUARES:
        low, high = _least_squares(samples, low, high)
    return _between(min(low, *fills, 0.0), max(high, *fills, 0.0))


def _least_squares(samples: torch.Tensor, low: float, high: float) -> tuple[float, float]:
    """Return the range after moving first its upper end and then its lower end to where the error is least."""

    def error(low: float, high: float) -> float:
        levels = _between(low, high)
        clipped = samples.clamp(-levels.zero * levels.scale, (LARGEST_LEVEL - levels.zero) * levels.scale)
        return float((clipped.div(levels.scale).round().mul(levels.scale) - samples).square().mean())

    shares = _SHRUNK.tolist()
    high = min((high * share for share in shares), key=lambda end: error(low, end))
    low = min((low * share for share in shares), key=lambda end: error(end, high)) if low < 0 else low
    return low, high


def _between(low: float, high: float) -> Levels:
    """Return levels for a range of values that includes zero."""
    scale = max((high - low) / LARGEST_LEVEL, 1e-12)
    return Levels(scale=scale, zero=min(LARGEST_LEVEL, max(0, round(-low / scale))))
