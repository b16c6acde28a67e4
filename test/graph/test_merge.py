# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""In merged graphs equal operators run once, and no graph's outputs change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from networks.random_models import random_model
from networks.random_models import seeds as random_seeds
from torch import Tensor, nn

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.fuse import fuse
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.graph.ir import Conv, Graph, Pointwise, TensorRef, TensorSpec
from cacheinf_ros.graph.merge import merge_graphs

SIZE = (24, 32)


class Diamond(nn.Module):
    """A trunk that is no chain: two branches, added up, and then a head."""

    def __init__(self, head: nn.Module, left_seed: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.right = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 1)
        torch.manual_seed(left_seed)
        self.left = nn.Conv2d(8, 8, 3, 1, 1)
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        return self.head(torch.maximum(self.left(x), self.right(x)))


def _head(classes: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))


def _convolutions(graph: Graph) -> int:
    return sum(isinstance(operator, Conv) for operator in graph.operators)


@torch.inference_mode()
def _assert_same_outputs(graphs: dict[str, Graph], seed: int = 0) -> None:
    shape = next(iter(graphs.values())).tensors[next(iter(graphs.values())).input].shape
    image = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    together = DenseGraph(merge_graphs(graphs).graph)(image)
    for name, graph in graphs.items():
        for output, value in DenseGraph(graph)(image).items():
            assert torch.equal(together.pop(f"{name}/{output}"), value)
    assert not together


def test_two_heads_share_a_trunk_with_branches() -> None:
    graphs = {name: graph_of(Diamond(_head(n, n)).eval(), SIZE) for name, n in (("a", 4), ("b", 6))}
    merged = merge_graphs(graphs)
    assert _convolutions(merged.graph) == 3 + 2
    assert merged.names["a"]["relu"] == merged.names["b"]["relu"] == "relu"
    assert (merged.names["a"]["linear"], merged.names["b"]["linear"]) == ("linear", "b/linear")
    # 12 x 16 pixels: 2 * (8 * 27 + 8 * 72 + 8 * 8) each; heads: 2 * 8 * 4 and 2 * 8 * 6
    trunk = 192 * 2 * (8 * 27 + 8 * 72 + 8 * 8)
    assert (merged.flops, merged.flops_apart) == (trunk + 160, 2 * trunk + 160)
    _assert_same_outputs(graphs)


def test_other_weights_end_what_is_shared_but_not_beside_them() -> None:
    """The left branches differ, but stem and right branch are still shared."""
    graphs = {n: graph_of(Diamond(_head(4, 7), seed).eval(), SIZE) for n, seed in (("a", 1), ("b", 2))}
    merged = merge_graphs(graphs)
    kinds = [type(o).__name__ for o in merged.graph.operators if len(merged.users[o.output]) > 1]
    assert kinds.count("Conv") == 2 and _convolutions(merged.graph) == 2 + 2 * 2
    _assert_same_outputs(graphs)


def test_equal_graphs_become_one() -> None:
    graph = graph_of(Diamond(_head(4, 7)).eval(), SIZE)
    merged = merge_graphs({"a": graph, "b": graph, "c": graph})
    assert len(merged.graph.operators) == len(graph.operators)
    assert [name for name, _ in merged.graph.outputs] == ["a/output", "b/output", "c/output"]
    _assert_same_outputs({"a": graph, "b": graph})


@settings(max_examples=15)
@given(seeds=st.tuples(random_seeds, random_seeds))
def test_random_networks_keep_their_outputs(seeds: tuple[int, int]) -> None:
    """The outputs stay whatever the networks share; the first network is used twice so that they share something."""
    first, other = map(random_model, seeds)
    graphs = {"a": first.graph, "b": fuse(first.unfused)}
    if other.network.input_size == first.network.input_size:
        graphs["c"] = other.graph
    _assert_same_outputs(graphs, seeds[0])


def _closure(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda x: x * factor


def test_functions_of_one_name_are_not_taken_for_one() -> None:
    """Closures share their name, and a hash sees no more of them than that."""
    spec = {"image": TensorSpec(name="image", shape=(1, 3, 4, 4)), "y": TensorSpec(name="y", shape=(1, 3, 4, 4))}
    twice = Pointwise(name="y", inputs=("image",), output="y", call=_closure(2), arguments=(TensorRef("image"),))
    graph = Graph(input="image", outputs=(("output", "y"),), operators=(twice,), tensors=spec)
    thrice = replace(graph, operators=(replace(twice, call=_closure(3)),))
    assert len(merge_graphs({"a": graph, "b": graph}).graph.operators) == 1
    _assert_same_outputs({"a": graph, "b": thrice})


def test_images_must_have_one_size() -> None:
    graphs = {str(size): graph_of(Diamond(_head(4, 7)).eval(), size) for size in (SIZE, (32, 24))}
    with pytest.raises(ModelError, match="the same size"):
        merge_graphs(graphs)
    with pytest.raises(ModelError):
        merge_graphs({})
