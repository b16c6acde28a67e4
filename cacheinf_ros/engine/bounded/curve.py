# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The curve of errors and times over growing thresholds, and where a promise lies on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cacheinf_ros.engine.delta_threshold import DeltaThreshold

_SMALLEST = 1e-9  # errors below count as this one where logarithms are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The errors and times that a factor of the thresholds led to; see :class:`Trial`."""

    factor: float
    engine_error: float
    missed_change: float
    milliseconds: float
    active_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The errors that bounded mode promises to stay below."""

    max_error: float
    max_missed: float

    def excess(self, point: CurvePoint) -> float:
        """Return log(error / promised) of the error that breaks the promise most; not positive where it is kept."""
        missed = log_ratio(point.missed_change, self.max_missed)
        return max(log_ratio(point.engine_error, self.max_error), missed)


def factor_for(curve: Sequence[CurvePoint], promise: Promise) -> float:
    """Return the largest factor that keeps a promise, interpolated between points of the curve; 0: none does."""
    good = curve[0]
    for point in curve[1:]:
        excess = promise.excess(point)
        if excess <= 0:
            good = point
            continue
        room = -promise.excess(good)
        if good.factor == 0 or room <= 0:
            return good.factor
        return float(good.factor * (point.factor / good.factor) ** (room / (room + excess)))
    return good.factor


def worth_of_error(curve: Sequence[CurvePoint], factor: float) -> float:
    """Return -d log(time) / d log(error) along the curve, around a factor; at least 0."""
    i = min(range(1, len(curve)), key=lambda k: abs(math.log(curve[k].factor / factor)))
    low, high = curve[max(1, i - 1)], curve[min(len(curve) - 1, i + 1)]
    time = log_ratio(low.milliseconds, high.milliseconds)
    error = log_ratio(high.engine_error, low.engine_error)
    return max(0.0, time / error) if error > 0 else 0.0


def scaled(base: Mapping[str, DeltaThreshold], factor: float) -> dict[str, DeltaThreshold]:
    """Return thresholds times a factor; none at 0."""
    if factor <= 0:
        return {}
    return {name: replace(t, threshold=t.threshold * factor) for name, t in base.items()}


def log_ratio(value: float, limit: float) -> float:
    """Return log(value / limit), where both count as at least 1e-9."""
    return math.log(max(value, _SMALLEST) / max(limit, _SMALLEST))
