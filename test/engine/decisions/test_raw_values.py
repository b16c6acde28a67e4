# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Outputs without a decoder are judged by how near they are to the mean of their neighbours."""

import numpy as np
import pytest

from cacheinf_ros.engine.decisions import task_of_model
from cacheinf_ros.engine.decisions.raw_values import RawValues
from cacheinf_ros.graph import ModelCard


def test_an_answer_is_as_right_as_it_is_near() -> None:
    task = RawValues([2.0], (8, 8))
    read = [task.read({"out": np.full((1, 3, 2, 2), value, np.float32)}, (8, 8)) for value in (0.0, 1.0, 2.0)]
    agreed = task.consensus(read, 1)
    assert task.score(read[1], agreed, None).right == 1.0
    assert task.score(read[0], agreed, None).right == pytest.approx(0.5)
    assert task.score([np.full((1, 3, 2, 2), 99, np.float32)], agreed, None).right == 0.0


def test_what_is_read_does_not_change_with_the_outputs() -> None:
    task, output = RawValues([1.0], (8, 8)), np.zeros((1, 2), np.float32)
    read = task.read({"out": output}, (8, 8))
    output += 1
    assert read[0].max() == 0.0


def test_several_outputs_without_a_decoder_are_raw() -> None:
    outputs = {"a": np.zeros((1, 4), np.float32), "b": np.zeros((1, 4), np.float32)}
    assert isinstance(task_of_model(ModelCard(input_size=(8, 8)), outputs, [1.0, 1.0]), RawValues)
