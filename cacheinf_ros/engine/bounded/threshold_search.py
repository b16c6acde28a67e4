# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds, by trials on a few frames, the thresholds that save most predicted time while a promise is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from cacheinf_ros.engine.bounded.bases import Base
from cacheinf_ros.engine.bounded.curve import CurvePoint, Promise, factor_for, log_ratio, scaled, worth_of_error
from cacheinf_ros.engine.bounded.trial import Trial, TrialEngine
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.quality import OutputScale

_FACTORS = tuple(float(f) for f in np.geomspace(1e-6, 3e-2, 14))
_ENOUGH = 0.5  # trials stop at this engine_error: nobody asks for more
_CLEARLY = 0.98  # share of the best time so far that a clearly better base must stay below
_OTHER = {Criterion.ENERGY: Criterion.POOLED_ENERGY, Criterion.POOLED_ENERGY: Criterion.ENERGY}


class ThresholdSearch:
    """Runs trials of thresholds against a promise."""

    def __init__(self, trials: TrialEngine, scale: OutputScale, promise: Promise) -> None:
        self._trials = trials
        self._scale = scale
        self._promise = promise
        self._exact = self._point({}, 0.0)

    def curve(self, base: Base) -> tuple[CurvePoint, ...]:
        """Measure the curve at growing factors, starting with 0, which is exact."""
        points = [self._exact]
        for factor in _FACTORS:
            points.append(self._point(base, factor))
            if points[-1].engine_error > _ENOUGH:
                break
        return tuple(points)

    def best(self, bases: Mapping[str, Base]) -> Base:
        """Return the base that takes the least time where it keeps the promise.

        A later base must be clearly better: on the few frames of a calibration, small differences say nothing.
        """

        def milliseconds(base: Base) -> float:
            factor = factor_for(self._near_promise(base), self._promise)
            return self._trial(scaled(base, factor)).milliseconds

        first, *others = bases.values()
        best, least = first, milliseconds(first)
        for base in others:
            took = milliseconds(base)
            if took < _CLEARLY * least:
                best, least = base, took
        return best

    def refined(self, base: Base, names: Iterable[str], pointwise: str) -> Base:
        """Refine a base by one pass of coordinate search, at the factor that just keeps the promise.

        A change that lowers the time by more than its error is worth along the curve is kept.

        Args:
            names: the tensors whose thresholds are tried.
            pointwise: the one tensor that cannot be pooled.
        """
        curve = self._near_promise(base)
        factor = factor_for(curve, self._promise)
        if factor == 0:
            return base
        worth = worth_of_error(curve, factor)
        best, least = dict(base), _cost(self._trial(scaled(base, factor)), worth)
        for name in names:
            for change in _changes(best[name], may_pool=name != pointwise):
                tried = {**best, name: change}
                cost = _cost(self._trial(scaled(tried, factor)), worth)
                if cost < least:
                    best, least = tried, cost
        return best

    def _near_promise(self, base: Base) -> tuple[CurvePoint, ...]:
        """Measure some points of the curve by bisection, up to the neighbours of where the promise is just kept."""
        points = {-1: self._exact}
        low, high = 0, len(_FACTORS)  # low - 1 keeps it, high breaks it
        while low < high:
            middle = (low + high) // 2
            points[middle] = self._point(base, _FACTORS[middle])
            if self._promise.excess(points[middle]) <= 0:
                low = middle + 1
            else:
                high = middle
        return tuple(point for _, point in sorted(points.items()))

    def _point(self, base: Base, factor: float) -> CurvePoint:
        trial = self._trial(scaled(base, factor))
        return CurvePoint(
            factor=factor,
            engine_error=trial.engine_error,
            missed_change=trial.missed_change,
            milliseconds=trial.milliseconds,
            active_share=trial.active_share,
        )

    def _trial(self, thresholds: Mapping[str, DeltaThreshold]) -> Trial:
        return self._trials.trial(thresholds, self._scale)


def _changes(delta: DeltaThreshold, *, may_pool: bool) -> Iterator[DeltaThreshold]:
    if may_pool:
        yield replace(delta, criterion=_OTHER[delta.criterion])
    for factor in (2.0, 0.5):
        yield replace(delta, threshold=delta.threshold * factor)


def _cost(trial: Trial, worth: float) -> float:
    return log_ratio(trial.milliseconds, 1.0) + worth * log_ratio(trial.engine_error, 1.0)
