# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Schedules that were tried are judged by their times more than by predictions."""

from __future__ import annotations

import numpy as np
import pytest

from cacheinf_ros.offload.planning.track_record import TrackRecord


def test_what_was_never_tried_is_as_wrong_as_is_usual() -> None:
    """An untried schedule is assumed to be off by the usual factor, with one exact prediction counted in."""
    record = TrackRecord()
    assert record.factors(["a", "b"]) == [1.0, 1.0]
    record.observe("a", 10.0, 20.0)
    assert record.factors(["a", "b"]) == pytest.approx([2.0, 2.0**0.5])
    record.observe("b", 10.0, 5.0)
    assert record.factors(["a", "b", "c"]) == pytest.approx([2.0, 0.5, 1.0], rel=0.01)


def test_accidents_count_little() -> None:
    record = TrackRecord()
    for took_ms in (10.0, 1e6):
        record.observe("a", 10.0, took_ms)
    assert record.factors(["a"]) == pytest.approx([3.0**0.2])


def test_choosing_by_predictions_ends_near_the_best() -> None:
    """Trusting predictions alone chooses the schedule with the most optimistic one.

    Predictions of 20 schedules are wrong by a factor of each schedule, 10 % on average; frames vary by 5 %.
    """
    trusting, learning = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        truth = rng.uniform(100.0, 150.0, 20)
        predicted = truth * np.exp(rng.normal(0.0, 0.1, len(truth)))
        record, took = TrackRecord(), []
        for _ in range(150):
            chosen = int(np.argmin(predicted * record.factors(range(len(truth)))))
            took.append(truth[chosen])
            record.observe(chosen, predicted[chosen], truth[chosen] * rng.normal(1.0, 0.05))
        trusting.append(truth[np.argmin(predicted)] / truth.min() - 1)
        learning.append(np.mean(took[-50:]) / truth.min() - 1)
    assert np.mean(learning) < 0.65 * np.mean(trusting)
