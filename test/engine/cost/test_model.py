# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of cost curves, with numbers worked out by hand."""

from __future__ import annotations

import pytest

from cacheinf_ros.engine.cost import CostModel, Curve, DenseSwitch
from cacheinf_ros.engine.cost.model import SHARES

ROWS = tuple(100.0 * share for share in SHARES)


def test_without_an_alternative_there_is_nothing_to_switch_to() -> None:
    curve = Curve(rows=ROWS)
    assert curve.switch_from > 1
    assert curve.predict(0.35) == pytest.approx(35.0)


def test_the_switch_lies_where_the_curves_cross() -> None:
    """At 0.2 the curves are at 20 and 30, at 0.5 at 50 and 40; they cross in the middle."""
    curve = Curve(rows=ROWS, alternative=(30.0, 30.0, 30.0, 40.0, 60.0))
    assert curve.switch_from == pytest.approx(0.35)
    assert curve.predict(0.2) == pytest.approx(20.0)
    assert curve.predict(1.0) == pytest.approx(60.0)


def test_an_alternative_that_is_always_faster_is_always_used() -> None:
    curve = Curve(rows=ROWS, alternative=tuple(0.5 * value for value in ROWS))
    assert curve.switch_from == SHARES[0]


def test_a_frame_is_the_sum_of_its_operators() -> None:
    model = CostModel(curves={"a": Curve(rows=ROWS), "b": Curve(rows=ROWS)})
    assert model.dense_ms == pytest.approx(0.2)


def test_dense_is_preferred_when_the_cache_proved_slower() -> None:
    switch = DenseSwitch()
    switch.observe_dense(10.0)
    for _ in range(5):
        assert not switch.prefers_dense(lambda: 0.95)
        switch.observe_cached(0.95, 14.0)
        switch.observe_cached(0.05, 3.0)
    assert switch.prefers_dense(lambda: 0.95)
    assert not switch.prefers_dense(lambda: 0.05)
    for _ in range(20):
        switch.observe_dense(10.0)
    assert not switch.prefers_dense(lambda: 0.95), "the cache gets another chance"


def test_nobody_asks_how_much_changed_unless_it_matters() -> None:
    """Asking how much changed would mean waiting for a device."""
    switch, asked = DenseSwitch(), []
    switch.observe_dense(10.0)
    for took_ms, times in ((5.0, 0), (50.0, 1)):
        for _ in range(10):
            switch.observe_cached(0.5, took_ms)
        assert switch.prefers_dense(lambda: asked.append(None) or 0.5) == bool(times)
        assert len(asked) == times
