# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of specialists made from training sets whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from skewed import CLASSES, dominance, training_set

from cacheinf_ros.catalog.specialists.retarget import Rejected, generic_accuracy, retarget, stream_weights, targets
from cacheinf_ros.catalog.specialists.specialist import Specialist


def _made(**changes: float) -> Specialist | Rejected | None:
    times = {"small_ms": 2.0, "generic_ms": 8.0} | changes
    return retarget(training_set(), dominance(), **times)


def test_samples_weigh_what_the_stream_shows_of_their_class() -> None:
    """Two classes with 0.6 and 0.3 of the stream have 1 and 3 samples; two samples are of other classes."""
    skew = replace(dominance(), classes=(5, 8), shares=(0.6, 0.3))
    wanted = targets(np.array([5, 8, 8, 8, 0, 14]), skew)
    assert wanted.tolist() == [0, 1, 1, 1, 2, 2]
    assert stream_weights(wanted, skew) == pytest.approx([0.6, 0.1, 0.1, 0.1, 0.05, 0.05])
    # at least 0.4 for others leaves 0.6 for both: 0.4 and 0.2
    assert stream_weights(wanted, skew, least_others=0.4) == pytest.approx([0.4, 0.2 / 3, 0.2 / 3, 0.2 / 3, 0.2, 0.2])


def test_a_specialist_knows_its_classes_and_the_others_as_others() -> None:
    specialist = _made()
    assert isinstance(specialist, Specialist)
    fresh = training_set(seed=5)
    answers = [specialist.answer(features).class_id for features in fresh.features]
    right = [a == (label if label < 7 else None) for a, label in zip(answers, fresh.labels, strict=True)]
    assert np.mean(right) > 0.97
    assert specialist.expected.passed == pytest.approx(0.1, abs=0.05)
    assert specialist.expected.latency_ms == pytest.approx(2 + 8 * specialist.expected.passed)
    assert specialist.expected.accuracy >= specialist.expected.generic_accuracy
    assert specialist.generic_classes == CLASSES


def test_where_classes_cannot_be_told_apart_none_is_made() -> None:
    blurred = training_set(noise=30.0, generic_accuracy=1.0)
    outcome = retarget(blurred, dominance(), small_ms=6.0, generic_ms=8.0)
    assert isinstance(outcome, Rejected) and "of the frames on" in outcome.why


def test_a_small_variant_that_is_not_faster_is_no_use() -> None:
    outcome = _made(small_ms=8.0)
    assert isinstance(outcome, Rejected) and outcome.why == "the small variant takes 8.0 ms, the model 8.0"


def test_classes_without_samples_are_named() -> None:
    samples = training_set()
    kept = samples.labels != 3
    lacking = replace(
        samples,
        features=samples.features[kept],
        labels=samples.labels[kept],
        generic=samples.generic[kept],
        held_out=samples.held_out[kept],
    )
    outcome = retarget(lacking, dominance(), small_ms=1.0, generic_ms=8.0)
    assert isinstance(outcome, Rejected) and "samples of class 3 to learn from" in outcome.why


def test_it_can_be_stopped_between_steps() -> None:
    times = {"small_ms": 1.0, "generic_ms": 8.0}
    asked = iter((False, False, True))
    assert retarget(training_set(), dominance(), **times, cancelled=lambda: next(asked)) is None
    assert not list(asked)
    assert isinstance(retarget(training_set(), dominance(), **times), Specialist)


def test_steps_and_threads_do_not_change_the_outcome() -> None:
    outcomes = [_made(), _made()]
    assert all(isinstance(outcome, Specialist) for outcome in outcomes)
    first, second = (outcome for outcome in outcomes if isinstance(outcome, Specialist))
    assert np.array_equal(first.layer.weight, second.layer.weight) and first.expected == second.expected


def test_accuracy_of_the_generic_model_by_hand() -> None:
    """Of the held-out samples one of two is right for class 0 (0.9 of the stream), and both for others (0.1)."""
    samples = replace(
        training_set(),
        labels=np.array([0, 0, 9, 9]),
        generic=np.array([0, 1, 9, 9]),
        features=np.zeros((4, 24), np.float32),
        held_out=np.ones(4, bool),
    )
    skew = replace(dominance(), classes=(0,), shares=(0.9,))
    assert generic_accuracy(samples, skew) == pytest.approx(0.9 / 2 + 0.1)
