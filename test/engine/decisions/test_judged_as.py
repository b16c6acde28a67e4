# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A guess of classes is made where most networks are classifiers or segmenters, and never against what a card says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions import ClassMaps, JudgedAs, judged_as, task_of_model
from cacheinf_ros.engine.decisions.raw_values import RawValues
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.card import read_card

SIZE = (8, 8)
ANY = np.random.default_rng(0).normal(size=1000).astype(np.float32)


def output(*shape: int) -> NDArray[np.float32]:
    return np.resize(ANY, shape)


def judged(values: NDArray[np.generic], **said: object) -> JudgedAs:
    return judged_as(ModelCard(input_size=SIZE, **said), {"out": values})


@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (1, 2, 4, 6), (1, 3, 4, 6)])
def test_three_channels_or_fewer_may_be_anything(shape: tuple[int, ...]) -> None:
    values = output(*shape)
    assert judged(values) is JudgedAs.VALUES_OF_FEW_CHANNELS
    assert judged(values, labels=("road", "rest")) is JudgedAs.CLASSES
    assert judged(values, decoder={"kind": "classes" if len(shape) == 2 else "map"}) is JudgedAs.CLASSES
    powers = np.exp(values)
    assert judged(powers / powers.sum(1, keepdims=True)) is JudgedAs.GUESSED_CLASSES  # as after softmax
    assert isinstance(task_of_model(ModelCard(input_size=SIZE), {"out": values}, [1.0]), RawValues)


@pytest.mark.parametrize("shape", [(1, 4), (1, 1000), (1, 19, 4, 6)])
def test_a_card_says_that_values_are_no_classes(shape: tuple[int, ...]) -> None:
    assert judged(output(*shape)) is JudgedAs.GUESSED_CLASSES
    card = ModelCard(input_size=SIZE, decoder={"kind": "raw"}, labels=("a", "b", "c", "d"))
    assert judged_as(card, {"out": output(*shape)}) is JudgedAs.VALUES
    assert isinstance(task_of_model(card, {"out": output(*shape)}, [1.0]), RawValues)
    assert isinstance(task_of_model(ModelCard(input_size=SIZE), {"out": output(*shape)}, [1.0]), ClassMaps)


def test_the_texts_name_the_remedy() -> None:
    assert [each for each in JudgedAs if each.is_guess] == [JudgedAs.GUESSED_CLASSES, JudgedAs.VALUES_OF_FEW_CHANNELS]
    assert "'decoder: {kind: raw}'" in JudgedAs.GUESSED_CLASSES.value
    assert "labels or a decoder" in JudgedAs.VALUES_OF_FEW_CHANNELS.value


def test_a_card_may_say_raw(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("factory: flow.onnx\ndecoder: {kind: raw}\n")
    card = read_card(tmp_path / "flow.yaml")
    assert card.decoder is not None and card.decoder.kind == "raw"


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (5,), (1, 5)])
def test_whole_numbers_are_classes(shape: tuple[int, ...]) -> None:
    """ArgMax gives the second shape, or the third; class 3 is no nearer to 4 than to 300."""
    card, values = ModelCard(input_size=SIZE), np.full(shape, 300, np.int64)
    assert judged(values) is JudgedAs.CLASSES
    task = task_of_model(card, {"out": values}, [1.0])
    assert isinstance(task, ClassMaps)
    read = [task.read({"out": values - other}, SIZE) for other in (0, 1, 256)]
    values -= 1
    assert read[0].tolist() == [[300] * max(1, values.size)]
    assert [task.score(each, read[0], None).whole for each in read] == [1, 0, 0]


@pytest.mark.parametrize("said", [{"decoder": {"kind": "classes"}}, {"labels": ("a", "b", "c")}])
def test_whole_numbers_may_be_scores_of_a_quantised_network(said: dict[str, object]) -> None:
    scores = np.array([[3, 90, 7]], np.uint8)
    assert task_of_model(ModelCard(input_size=SIZE, **said), {"out": scores}, [1.0]).read({"out": scores}, SIZE) == 1
