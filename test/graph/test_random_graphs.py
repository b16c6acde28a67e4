# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The graphs of random networks with all kinds of operators compute what the networks compute."""

import copy

import pytest
import torch
from hypothesis import given, settings
from networks.lowered import assert_same_function
from networks.random_graphs import random_network
from networks.random_models import random_model, seeds

from cacheinf_ros.graph.fuse import fuse
from cacheinf_ros.graph.interpret import DenseGraph

# torch writes them as comparisons
COMPARED = {"aten.le.Scalar", "aten.where.ScalarSelf"}


@settings(max_examples=35)
@given(seed=seeds)
def test_graph_equals_network(seed: int) -> None:
    random = random_model(seed)
    assert_same_function(random.graph, random.network, random.network.input_size)
    assert set(random.graph.unknown) <= COMPARED


@settings(max_examples=10)
@given(seed=seeds)
def test_fusing_changes_nothing_but_the_number_of_operators(seed: int) -> None:
    random = random_model(seed)
    before, network = random.unfused, random.network
    after = fuse(before)
    assert len(after.operators) <= len(before.operators)
    assert [name for name, _ in before.outputs] == [name for name, _ in after.outputs]
    assert_same_function(before, network, network.input_size)


def test_a_seed_gives_one_network() -> None:
    first, second = random_network(3), random_network(3)
    assert first.names == second.names and first.input_size == second.input_size
    image = torch.randn(1, 3, *first.input_size)
    for a, b in zip(first(image).values(), second(image).values(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("seed", [1, 8])
def test_tensors_are_in_order_and_known(seed: int) -> None:
    network, graph = random_model(seed).network, random_model(seed).graph
    there = {graph.input}
    for operator in graph.operators:
        assert set(operator.inputs) <= there
        there.add(operator.output)
    assert there == set(graph.tensors)
    made = DenseGraph(copy.deepcopy(graph)).tensors(torch.randn(1, 3, *network.input_size))
    assert {name: tuple(value.shape) for name, value in made.items()} == {
        name: spec.shape for name, spec in graph.tensors.items()
    }
