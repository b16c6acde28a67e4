# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which changes delta thresholds pass on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold

SIZE = (7, 9)
OLD = np.zeros((63, 1), np.float32)
ALL = np.arange(63)


def passed(changes: dict[tuple[int, int], float], criterion: Criterion, threshold: float) -> set[tuple[int, int]]:
    """Return the pixels (y, x) that are passed on in a map of one channel in which some pixels changed."""
    computed = OLD.copy().reshape(*SIZE, 1)
    for place, change in changes.items():
        computed[place] = change
    delta = DeltaThreshold(threshold=threshold, criterion=criterion)
    there = delta.passes(computed.reshape(-1, 1), OLD, ALL, SIZE).reshape(SIZE)
    return set(map(tuple, np.argwhere(there).tolist()))


def test_a_single_pixel_must_change_three_times_as_much_where_changes_are_pooled() -> None:
    """A single pixel weighs 3 * 3 of 81, so that a change of 9 counts as 3."""
    assert passed({(3, 4): 9.0}, Criterion.ENERGY, 8.9) == {(3, 4)}
    assert passed({(3, 4): 9.0}, Criterion.POOLED_ENERGY, 2.9) == {(3, 4)}
    assert passed({(3, 4): 9.0}, Criterion.POOLED_ENERGY, 3.1) == set()


def test_neighbours_help_each_other() -> None:
    """Two adjacent pixels: (9 + 6) / 81 of the square of 9, which is a change of sqrt(15); one apart: (9 + 3) / 81."""
    assert passed({(3, 4): 9.0, (3, 5): 9.0}, Criterion.POOLED_ENERGY, 3.87) == {(3, 4), (3, 5)}
    assert passed({(3, 4): 9.0, (3, 5): 9.0}, Criterion.POOLED_ENERGY, 3.88) == set()
    assert passed({(3, 4): 9.0, (3, 6): 9.0}, Criterion.POOLED_ENERGY, 3.46) >= {(3, 4), (3, 6)}


def test_channels_count_by_their_weight() -> None:
    """Changes of 3 and 4 are 5 in all; weighted, 2 * 3 and 4 / 2 are sqrt(40); the largest is 4, or 6 if weighted."""
    computed, old, rows = np.array([[3, -4]], np.float32), np.zeros((1, 2), np.float32), np.array([0])
    weight = np.array([2, 0.5], np.float32)
    for criterion, weights, change in (
        (Criterion.ENERGY, None, 5.0),
        (Criterion.ENERGY, weight, 40**0.5),
        (Criterion.MAXIMUM, None, 4.0),
        (Criterion.MAXIMUM, weight, 6.0),
    ):
        assert DeltaThreshold(threshold=0, criterion=criterion, weight=weights).change(computed, old) == pytest.approx(
            change
        )
        below, above = (
            DeltaThreshold(threshold=factor * change, criterion=criterion, weight=weights) for factor in (0.99, 1.01)
        )
        assert below.passes(computed, old, rows, (1, 1)).all()
        assert not above.passes(computed, old, rows, (1, 1)).any()


@given(criterion=st.sampled_from(Criterion), seed=st.integers(0, 99))
def test_a_negative_threshold_passes_everything_on(criterion: Criterion, seed: int) -> None:
    rows = np.flatnonzero(np.random.default_rng(seed).random(63) < 0.5)
    delta = DeltaThreshold(threshold=-1.0, criterion=criterion)
    assert delta.passes(OLD[rows], OLD[rows], rows, SIZE).all()


@given(threshold=st.floats(0, 10), seed=st.integers(0, 99))
def test_higher_thresholds_pass_less_on(threshold: float, seed: int) -> None:
    computed = np.random.default_rng(seed).normal(0, 5, (63, 1)).astype(np.float32)
    for criterion in Criterion:
        low, high = (DeltaThreshold(threshold=t, criterion=criterion) for t in (threshold, 1.5 * threshold))
        assert not (high.passes(computed, OLD, ALL, SIZE) & ~low.passes(computed, OLD, ALL, SIZE)).any()
