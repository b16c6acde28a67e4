# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the search for thresholds, on trials whose outcome is written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cacheinf_ros.engine.bounded.curve import CurvePoint, Promise, worth_of_error
from cacheinf_ros.engine.bounded.threshold_search import ThresholdSearch
from cacheinf_ros.engine.bounded.trial import Trial
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.quality import OutputScale

PROMISE = Promise(max_error=0.01, max_missed=1.0)


class Trials:
    """Trials in which each tensor saves time and costs error in proportion to its threshold.

    A tensor's values are (time, error) at a threshold of 1; pooled energy saves as much at a quarter of the threshold.
    """

    def __init__(self, **tensors: tuple[float, float]) -> None:
        self.tensors = tensors

    def trial(self, thresholds: Mapping[str, DeltaThreshold], scale: OutputScale) -> Trial:
        gains = {Criterion.ENERGY: 1, Criterion.POOLED_ENERGY: 4}
        saved = sum(self.tensors[n][0] * t.threshold * gains[t.criterion] for n, t in thresholds.items())
        squares = sum((self.tensors[n][1] * t.threshold) ** 2 for n, t in thresholds.items())
        milliseconds = 100 / (1 + saved)
        return Trial(
            engine_error=squares**0.5, missed_change=0.0, milliseconds=milliseconds, active_share=1.0, measured_ms=1.0
        )


def search_of(trials: Any) -> ThresholdSearch:
    return ThresholdSearch(trials, OutputScale(deviations=(1.0,)), PROMISE)


def energy(**thresholds: float) -> dict[str, DeltaThreshold]:
    return {name: DeltaThreshold(threshold=t, criterion=Criterion.ENERGY) for name, t in thresholds.items()}


def test_the_base_that_saves_clearly_more_is_chosen() -> None:
    trials = Trials(first=(100.0, 1.0), same=(101.0, 1.0), better=(200.0, 1.0))
    bases = {name: energy(**{name: 1.0}) for name in trials.tensors}
    search = search_of(trials)
    assert search.best(bases) is bases["better"]
    assert search.best({name: bases[name] for name in ("first", "same")}) is bases["first"]


def test_thresholds_move_to_where_they_save_more_for_their_error() -> None:
    """Both tensors cost the same error, but one saves hardly any time: its threshold is lowered."""
    search = search_of(Trials(dear=(1.0, 1.0), other=(900.0, 1.0)))
    refined = search.refined(energy(dear=1.0, other=1.0), ["dear"], pointwise="dear")
    assert refined["dear"].threshold == 0.5


def test_changes_are_pooled_where_that_saves_more_but_never_the_inputs() -> None:
    search = search_of(Trials(image=(100.0, 1.0), inner=(100.0, 1.0)))
    refined = search.refined(energy(image=1.0, inner=1.0), ["image", "inner"], pointwise="image")
    assert refined["inner"].criterion is Criterion.POOLED_ENERGY
    assert refined["image"].criterion is Criterion.ENERGY


def test_a_promise_that_nothing_keeps_leaves_the_base_alone() -> None:
    search = search_of(Trials(t=(1.0, 1e9)))
    base = energy(t=1.0)
    assert search.refined(base, ["t"], pointwise="t") == base


def test_the_curve_begins_with_exact_and_ends_where_nobody_asks_for_more() -> None:
    curve = search_of(Trials(t=(1.0, 1000.0))).curve(energy(t=1.0))
    assert curve[0].factor == curve[0].engine_error == 0
    assert curve[-2].engine_error <= 0.5 < curve[-1].engine_error
    assert [point.factor for point in curve] == sorted(point.factor for point in curve)


def test_the_worth_of_error_is_the_slope_of_the_curve() -> None:
    """Time falls by 2 where the error grows by 4, which gives a slope of one half."""
    curve = [
        CurvePoint(factor=f, engine_error=e, missed_change=0, milliseconds=ms, active_share=1)
        for f, e, ms in ((0, 0, 90), (1, 0.01, 80), (2, 0.02, 57), (4, 0.04, 40))
    ]
    assert worth_of_error(curve, 2.0) == pytest.approx(0.5)
