# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where outputs flicker so much that dense answers are hardly ever right, nothing is held; bursts keep no answers."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions import Task, task_of_model
from cacheinf_ros.engine.decisions.raw_values import RawValues
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.pipeline.answer_holder import AnswerHolder, LossReport
from cacheinf_ros.pipeline.promise_notes import limits_text

SIZE, BURST, LATER_BURST = (64, 64), 24, 16
STILL = np.full((*SIZE, 3), 99, np.uint8)


def run(holder: AnswerHolder, task: Task[Any], noise: float, seed: int, bursts: int) -> LossReport:
    """Show a still picture until there were so many bursts; the model's map is noise of this deviation."""
    rng = np.random.default_rng(seed)
    for _ in range(5000):
        if not holder.stands(STILL):
            depth = 1 + noise * rng.normal(size=(1, 1, 16, 16)).astype(np.float32)
            holder.computed(task.read({"depth": depth}, SIZE))
        if holder.bursts == bursts:
            assert holder.report is not None
            return holder.report
    raise AssertionError("no burst came")


@pytest.mark.parametrize(("noise", "tells"), [(0.1, True), (20.0, False)])
def test_nothing_is_held_where_losses_mean_nothing(noise: float, tells: bool) -> None:
    task = RawValues([1.0], SIZE)
    holder = AnswerHolder(task, SIZE, 0.02)
    report = run(holder, task, noise, 0, bursts=1)
    assert (holder.holding.limit is not None) is tells
    assert report.tells is tells
    assert (report.dense_right >= task.least_right) is tells
    assert limits_text(report, holder.holding, 1.0).startswith(
        "largest" if tells else "nothing is held: outputs flicker"
    )


def test_such_a_burst_ends_what_earlier_ones_allowed() -> None:
    task = RawValues([1.0], SIZE)
    holder = AnswerHolder(task, SIZE, 0.02)
    run(holder, task, 0.01, 0, bursts=1)
    assert holder.holding.limit is not None
    report = run(holder, task, 20.0, 1, bursts=2)
    assert holder.holding.limit is None and not report.tells
    holder.promise(0.01)
    assert holder.holding.limit is None
    assert run(holder, task, 0.01, 2, bursts=3).tells
    assert holder.holding.limit is not None


def test_after_a_burst_scores_are_kept_and_no_answers() -> None:
    task = task_of_model(ModelCard(input_size=SIZE), {"depth": np.zeros((1, 1, 4, 4), np.float32)}, [1.0])
    holder = AnswerHolder(task, SIZE, 0.02)
    kept: list[weakref.ref[NDArray[np.float32]]] = []
    for index in range(BURST + 200):
        if not holder.stands(STILL):
            answer = task.read({"depth": np.full((1, 1, 4, 4), index % 2, np.float32)}, SIZE)
            kept.append(weakref.ref(answer.outputs[0]))
            holder.computed(answer)
            del answer
        if holder.bursts == 2:
            break
    assert holder.bursts == 2 and len(kept) >= BURST + LATER_BURST
    gc.collect()
    assert sum(each() is not None for each in kept) == 1  # the last answer, as it may be held
