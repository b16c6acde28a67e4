# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models whose weights lie in shared memory compute the same, and no weights are copied."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
from fleets import MODEL, InMemory
from sessions import ENGINE

from cacheinf_ros.engine import Engine, PartitionWorker
from cacheinf_ros.errors import LinkError, ModelError
from cacheinf_ros.fleet.shared_weights import ModelContent, content_of, model_of_content, shared_model
from cacheinf_ros.graph import Model, ir, load_model


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(MODEL)


def lies_in(tensor: Any, array: np.ndarray) -> bool:
    first = array.ctypes.data
    return bool(first <= tensor.data_ptr() and tensor.data_ptr() + tensor.nbytes <= first + array.nbytes)


def test_it_computes_the_same_from_the_same_memory(model: Model) -> None:
    held = Engine(model, ENGINE)
    content = content_of(model)
    content.graph.flags.writeable = content.packed.flags.writeable = False
    assert content.places, "the engine has packed weights"
    shared = [model_of_content(content) for _ in range(2)]
    engines = [Engine(each, ENGINE) for each in shared]
    for each in shared:
        weights = [operator.weight for operator in each.graph.operators if isinstance(operator, ir.Conv)]
        assert all(lies_in(weight, content.graph) for weight in weights)
        packed = [value.value for _, value in each.shared.held() if isinstance(value.value, torch.Tensor)]
        assert len(packed) >= len(content.places) and all(lies_in(value, content.packed) for value in packed)
    assert shared[0].card == model.card and shared[0].weights_origin is model.weights_origin
    image = np.random.default_rng(0).integers(0, 256, (*model.input_size, 3), np.uint8)
    expected = held.run(image, None).outputs
    for engine in engines:
        for name, value in engine.run(image, None).outputs.items():
            np.testing.assert_array_equal(value, expected[name])


def test_only_the_first_process_loads_the_model(model: Model) -> None:
    store, made = InMemory(), []

    def make() -> Model:
        made.append(model)
        return model

    first, second = (shared_model(store, "key", make, lambda each: PartitionWorker(each, ENGINE)) for _ in range(2))
    assert len(made) == 1
    assert first is not model and second is not first
    other = shared_model(store, "other", make, lambda each: None)
    assert len(made) == 2 and other is not model


def test_a_store_that_fails_is_told_of_and_done_without(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    class Full(InMemory):
        def hold(self, key: str, content: ModelContent) -> None:
            raise LinkError("it is full")

    class Silent(InMemory):
        def find(self, key: str) -> ModelContent | None:
            raise LinkError("it is silent")

    for store, reason in ((Full(), "it is full"), (Silent(), "it is silent")):
        with caplog.at_level(logging.WARNING):
            assert shared_model(store, "key", lambda: model, lambda each: None) is model
        assert f"its own, and take memory once more: {reason}" in caplog.text


def test_a_model_that_is_not_there_is_an_error() -> None:
    def make() -> Model:
        raise ModelError("there is none")

    with pytest.raises(ModelError, match="there is none"):
        shared_model(InMemory(), "key", make, lambda each: None)
