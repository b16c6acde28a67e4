# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Outputs without a decoder are judged by how near they are to the mean of their neighbours."""

from collections.abc import Sequence

import numpy as np
import pytest

from cacheinf_ros.engine.decisions import Loss, Score, consensus_of_all, score_all, task_of_model
from cacheinf_ros.engine.decisions.raw_values import RawValues
from cacheinf_ros.graph import ModelCard

FLICKER = np.random.default_rng(0).normal(0, 0.01, 60)


def test_an_answer_is_as_right_as_it_is_near() -> None:
    task = RawValues([2.0], (8, 8))
    read = [task.read({"out": np.full((1, 3, 2, 2), value, np.float32)}, (8, 8)) for value in (0.0, 1.0, 2.0)]
    agreed = task.consensus(read, 1)
    assert task.score(read[1], agreed, None).right == 1.0
    assert task.score(read[0], agreed, None).right == pytest.approx(0.5)
    assert task.score(task.read({"out": np.full((1, 3, 2, 2), 99, np.float32)}, (8, 8)), agreed, None).right == 0.0


def test_what_is_read_does_not_change_with_the_outputs() -> None:
    task, output = RawValues([1.0], (8, 8)), np.zeros((1, 2), np.float32)
    read = task.read({"out": output}, (8, 8))
    output += 1
    assert read.outputs[0].max() == 0.0


def test_several_outputs_without_a_decoder_are_raw() -> None:
    outputs = {"a": np.zeros((1, 4), np.float32), "b": np.zeros((1, 4), np.float32)}
    assert isinstance(task_of_model(ModelCard(input_size=(8, 8)), outputs, [1.0, 1.0]), RawValues)


def loss_when_late(deviation: float, counts: Sequence[float], frames_late: int) -> tuple[Loss, Score]:
    """Return what late answers lose, and how often dense ones are right.

    Args:
        deviation: that of a count over photographs; a map beside it varies and is never late.
        counts: the count in each frame.
    """
    task = RawValues([1.0, deviation], (8, 8))
    dense = [
        task.read({"map": np.ones((1, 1, 4, 4), np.float32), "count": np.float32([[count]])}, (8, 8))
        for count in counts
    ]
    agreed = consensus_of_all(task, dense)
    late = [dense[max(0, index - frames_late)] for index in range(len(dense))]
    right = sum(score_all(task, dense, agreed), Score())
    return Loss.of(sum(score_all(task, late, agreed), Score()), right), right


@pytest.mark.parametrize("deviation", [0.0, 1e-6, 1e-3])
def test_an_output_that_photographs_do_not_move_still_judges(deviation: float) -> None:
    """It flickers by 0.01 around 3 while somebody is there, and is 0 on photographs: divided by 0, all were wrong."""
    counts = [3 + float(FLICKER[t]) if t % 20 >= 10 else deviation for t in range(60)]
    loss, right = loss_when_late(deviation, counts, 3)
    assert right.whole > 0.5  # it is the mean that comes and goes slowly
    assert loss.whole > 0.08


def test_an_output_that_varies_on_photographs_is_judged_by_that_alone() -> None:
    counts = [500 + 0.5 * (t % 2) for t in range(60)]
    loss, right = loss_when_late(10.0, counts, 1)
    assert right.whole == pytest.approx(1 - 0.5 * 4 / 9 / 10, abs=0.001)  # most of nine frames are as the frame itself
    assert abs(loss.whole) < 0.01


def test_of_large_outputs_some_values_are_looked_at() -> None:
    task, outputs = RawValues([1.0] * 3, (64, 64), most_values=1000), np.arange(64.0 * 64 * 2, dtype=np.float32)
    maps, boxes = outputs.reshape(1, 2, 64, 64), outputs.reshape(1, 1024, 8)
    read = task.read({"map": maps, "boxes": boxes, "few": boxes[:, :100]}, (64, 64))
    assert np.array_equal(read.outputs[0], maps[:, :, ::3, ::3])
    assert np.array_equal(read.outputs[1], boxes[:, ::9])
    assert np.array_equal(read.outputs[2], boxes[:, :100])


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_wrong_in_any_output(at: int, value: float) -> None:
    task = RawValues([1.0, 1.0], (8, 8))
    right = {"a": np.zeros((1, 4), np.float32), "b": np.ones((1, 4), np.float32)}
    wrong = {name: output.copy() for name, output in right.items()}
    wrong["ab"[at]][0, 2] = value
    agreed, answer = task.read(right, (8, 8)), task.read(wrong, (8, 8))
    assert task.score(answer, agreed, None).right == 0.0
    assert task.score(agreed, agreed, None).right == 1.0
