# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Networks can be cut into trunk and head, and put together again."""

from __future__ import annotations

import pytest
import torch
from lowered import graph_of
from networks.shared_models import small_scenenet
from torch import Tensor, nn

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.graph.trunk import FEATURES, last_layer, trunk_graph, with_head

SIZE = (24, 32)


class Classifier(nn.Module):
    """A classifier of a residual block, pooling and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.hidden, self.last = nn.Linear(8, 6), nn.Linear(6, 5)

    def pooled(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        return torch.relu(x + self.block(x)).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.hidden(self.pooled(x))))


@torch.inference_mode()
def _outputs(graph: Graph, image: Tensor) -> list[Tensor]:
    return list(DenseGraph(graph)(image).values())


def test_trunk_gives_what_the_last_layer_reads() -> None:
    torch.manual_seed(0)
    network = Classifier().eval()
    trunk = trunk_graph(graph_of(network, SIZE))
    image = torch.randn(1, 3, *SIZE)
    with torch.no_grad():
        features = torch.relu(network.hidden(network.pooled(image)))
    assert trunk.outputs[0][0] == FEATURES
    torch.testing.assert_close(_outputs(trunk, image)[0].flatten(), features.flatten(), rtol=1e-5, atol=1e-6)


def test_trunk_with_the_head_that_it_had_is_the_network_again() -> None:
    torch.manual_seed(0)
    graph = graph_of(Classifier().eval(), SIZE)
    last = last_layer(graph)
    again = with_head(trunk_graph(graph), last.weight.flatten(1), last.bias)
    image = torch.randn(1, 3, *SIZE)
    assert torch.equal(_outputs(again, image)[0], _outputs(graph, image)[0])


def test_a_map_is_averaged_and_what_follows_it_is_left_out() -> None:
    graph = small_scenenet().graph
    trunk = trunk_graph(graph, "relu_5")
    image = torch.randn(1, 3, 96, 128)
    with torch.inference_mode():
        expected = DenseGraph(graph).tensors(image)["relu_5"].mean((2, 3))
    assert [o.output for o in trunk.operators][-2] == "relu_5"
    torch.testing.assert_close(_outputs(trunk, image)[0].flatten(1), expected, rtol=1e-4, atol=1e-5)


def test_other_branches_are_left_out() -> None:
    """relu_10 is computed from relu_8 by two convolutions; cutting at relu_8 leaves out both."""
    graph = small_scenenet().graph
    outputs = {operator.output for operator in trunk_graph(graph, "relu_8").operators}
    assert "relu_8" in outputs and outputs.isdisjoint({"relu_9", "relu_10", "cat"})


def test_what_cannot_be_cut_is_named() -> None:
    graph = graph_of(Classifier().eval(), SIZE)
    with pytest.raises(ModelError, match=r"no feature map 'nowhere' to cut at; choose from .*linear"):
        trunk_graph(graph, "nowhere")
    softmax = graph_of(nn.Sequential(Classifier(), nn.Softmax(1)).eval(), SIZE)
    with pytest.raises(ModelError, match="in place of a linear layer or 1x1 convolution"):
        trunk_graph(softmax)


def test_a_head_must_fit() -> None:
    trunk = trunk_graph(graph_of(Classifier().eval(), SIZE))
    with pytest.raises(ModelError, match=r"weights \(4, 7\) and \(4,\) does not fit features \(1, 6"):
        with_head(trunk, torch.zeros(4, 7), torch.zeros(4))
    with pytest.raises(ModelError, match="does not fit"):
        with_head(trunk, torch.zeros(4, 6), torch.zeros(3))
