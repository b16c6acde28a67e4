# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Errors, missed change and agreement, with numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.bench.output_errors import Agreement, ErrorScale, MissedChange

# outputs 0 and 4 lie 2 from their mean 2
TWO = [[np.array([[0.0, 0.0]])], [np.array([[4.0, 4.0]])]]


def test_error_is_relative_to_the_spread() -> None:
    scale = ErrorScale(TWO)
    assert scale.error([np.array([[3.0, 1.0]])], [np.array([[2.0, 2.0]])]) == pytest.approx(0.5)
    assert scale.error([np.array([[2.0, 2.0]])], [np.array([[2.0, 2.0]])]) == 0.0


def test_error_is_that_of_the_worst_output() -> None:
    scale = ErrorScale([[np.zeros(2), np.zeros(2)], [np.full(2, 2.0), np.full(2, 20.0)]])
    ours, exact = [np.full(2, 1.0), np.full(2, 5.0)], [np.zeros(2), np.zeros(2)]
    assert scale.errors(ours, exact) == pytest.approx([1.0, 0.5])
    assert scale.error(ours, exact) == pytest.approx(1.0)


@given(st.integers(0, 99), st.integers(2, 6), st.floats(-1e3, 1e3))
def test_spread_is_the_deviation_from_the_mean_output(seed: int, count: int, offset: float) -> None:
    varied = np.random.default_rng(seed).normal(offset, 1, (count, 1, 3, 4, 5)).astype(np.float32)
    spread = np.sqrt(np.mean(np.square(varied.astype(np.float64) - varied.astype(np.float64).mean(axis=0))))
    scale = ErrorScale([[image] for image in varied])
    one = np.ones_like(varied[0])
    assert scale.error([2 * one], [one]) == pytest.approx(1 / spread, rel=1e-3)


def test_missed_change_by_hand() -> None:
    missed = MissedChange(ErrorScale(TWO))
    exact, stale = [np.array([[2.0, 2.0]])], [np.array([[0.0, 0.0]])]
    missed.add([np.array([[1.5, 2.5]])], exact, stale)  # 0.5 of 2
    assert missed.value == pytest.approx(0.25)
    missed.add(exact, exact, stale)  # nothing of 2
    assert missed.value == pytest.approx(0.25 / np.sqrt(2))
    missed.add(stale, stale, stale)  # nothing changed: nothing missed
    assert missed.value == pytest.approx(0.25 / np.sqrt(2))


def test_a_cache_that_never_updates_misses_everything() -> None:
    missed = MissedChange(ErrorScale(TWO))
    for value in (1.0, 3.0):
        missed.add([np.zeros((1, 2))], [np.full((1, 2), value)], [np.zeros((1, 2))])
    assert missed.value == pytest.approx(1.0)


def test_without_change_nothing_can_be_missed() -> None:
    missed = MissedChange(ErrorScale(TWO))
    assert missed.value is None
    missed.add([np.full((1, 2), 1e-7)], [np.zeros((1, 2))], [np.zeros((1, 2))])
    assert missed.value is None


def test_agreement_counts_pixels_over_frames() -> None:
    agreement = Agreement()
    assert agreement.value is None
    agreement.add(np.array([[0, 1]]), np.array([[0, 0]]))
    assert agreement.value == 0.5
    agreement.add(np.array([[5, 5]]), np.array([[5, 5]]))
    assert agreement.value == 0.75
    agreement.add(None, None)
    assert agreement.value == 0.75


def test_agreement_where_something_changed() -> None:
    agreement = Agreement()
    ours, exact = np.array([[0, 1, 2, 3]]), np.array([[0, 0, 2, 2]])
    everywhere = np.zeros((2, 8), np.bool_)
    agreement.add(ours, exact, everywhere)
    assert agreement.value is None
    everywhere[0, 2] = everywhere[1, 4] = True  # a single one of the four pixels that each output pixel stands for
    agreement.add(ours, exact, everywhere)
    assert agreement.value == 0.5  # columns 1 and 2
    larger = Agreement()
    larger.add(ours.repeat(2, 0), exact.repeat(2, 0), np.array([[True, False]]))
    assert larger.value == 0.5  # columns 0 and 1
