# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of what a specialist answers, and how sure it must be, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.catalog.linear import Linear
from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.specialist import Expectation, Specialist, Trial, calibrate


def _trial(*rows: tuple[float, bool, bool, bool], weights: tuple[float, ...] | None = None) -> Trial:
    """Build a trial from rows of (confidence, claims a class, right, generic right)."""
    confidence, claims, right, generic = zip(*rows, strict=True)
    count = len(rows)
    return Trial(
        confidence=np.array(confidence, np.float32),
        claims=np.array(claims),
        right=np.array(right),
        generic_right=np.array(generic),
        disagrees=np.array(right) != np.array(generic),
        weights=np.full(count, 1 / count) if weights is None else np.array(weights),
    )


def test_the_threshold_is_as_low_as_accuracy_allows() -> None:
    """Sorted: right, right, wrong (lost), right where generic is wrong (won back), wrong (lost again), "other"."""
    trial = _trial(
        (0.6, True, False, True),
        (0.95, True, True, True),
        (0.8, True, False, True),
        (0.7, True, True, False),
        (0.9, True, True, True),
        (0.99, False, True, True),
    )
    threshold, expected = calibrate(trial, small_ms=2.0, generic_ms=10.0)
    assert threshold == pytest.approx(0.7)
    assert expected.accuracy == expected.generic_accuracy == pytest.approx(5 / 6)
    assert expected.passed == pytest.approx(2 / 6)  # 0.6 and "other"
    assert expected.disagreement == pytest.approx(2 / 4)
    assert expected.latency_ms == pytest.approx(2 + 10 * 2 / 6)
    assert expected.break_even == pytest.approx(0.8)


def test_weights_are_those_of_the_stream() -> None:
    trial = _trial((0.9, True, True, False), (0.8, True, False, True), weights=(0.75, 0.25))
    threshold, expected = calibrate(trial, 1.0, 4.0)
    assert (threshold, expected.passed) == (pytest.approx(0.8), pytest.approx(0.0))
    assert (expected.accuracy, expected.generic_accuracy) == (pytest.approx(0.75), pytest.approx(0.25))
    other, _ = calibrate(_trial((0.9, True, True, False), (0.8, True, False, True), weights=(0.25, 0.75)), 1.0, 4.0)
    assert other == pytest.approx(0.9)


def test_nothing_is_taken_where_everything_would_be_lost() -> None:
    threshold, expected = calibrate(_trial((1.0, True, False, True), (0.9, False, True, True)), 1.0, 4.0)
    assert threshold > 1 and expected.passed == 1.0
    assert (expected.latency_ms, expected.accuracy) == (5.0, 1.0)


def test_equal_confidences_are_taken_together_or_not_at_all() -> None:
    threshold, expected = calibrate(_trial((0.9, True, True, True), (0.9, True, False, True)), 1.0, 4.0)
    assert threshold > 1 and expected.passed == 1.0


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0.3, 0.5, 0.7, 0.9, 1.0]), st.booleans(), st.booleans(), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_both_together_are_never_worse_than_the_generic_model(rows: list[tuple[float, bool, bool, bool]]) -> None:
    """The accuracy is computed independently from the threshold, and no lower threshold would do."""
    threshold, expected = calibrate(_trial(*rows), 1.0, 4.0)

    def accuracy(least: float) -> float:
        return sum(right if claims and float(np.float32(c)) >= least else g for c, claims, right, g in rows) / len(rows)

    assert expected.accuracy == pytest.approx(accuracy(threshold))
    assert expected.accuracy >= expected.generic_accuracy - 1e-9
    lower = {float(np.float32(c)) for c, claims, _, _ in rows if claims and float(np.float32(c)) < threshold}
    assert all(accuracy(c) < expected.generic_accuracy - 1e-12 for c in lower)


def _specialist(threshold: float) -> Specialist:
    known = Dominance(pair=Pair(n=7, p=0.9), classes=(4, 2), shares=(0.6, 0.3))
    expected = Expectation(
        accuracy=1, generic_accuracy=1, passed=0, disagreement=0, latency_ms=1, small_ms=1, generic_ms=4
    )
    layer = Linear(weight=np.eye(3, dtype=np.float32), bias=np.zeros(3, np.float32))
    return Specialist(dominance=known, layer=layer, threshold=threshold, generic_classes=6, expected=expected)


@pytest.mark.parametrize(
    ("features", "class_id"),
    [((5.0, 0.0, 0.0), 4), ((0.0, 5.0, 0.0), 2), ((0.0, 0.0, 5.0), None), ((1.0, 0.9, 0.0), None)],
)
def test_it_answers_what_it_knows_and_is_sure_of(features: tuple[float, ...], class_id: int | None) -> None:
    assert _specialist(0.9).answer(np.array(features, np.float32)).class_id == class_id


def test_its_answer_reads_like_the_generic_models() -> None:
    """Classes 4 and 2 have their own probabilities; the other four share that of "other"."""
    specialist = _specialist(0.0)
    answer = specialist.answer(np.log(np.array([0.7, 0.2, 0.1], np.float32)))
    assert np.exp(specialist.logits(answer)) == pytest.approx(np.array([[0.025, 0.025, 0.2, 0.025, 0.7, 0.025]]))
