# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense interpreter beyond its results: gradients, intermediate tensors and memory layout."""

import pytest
import torch
from networks.lowered import assert_same_function, graph_of
from networks.random_graphs import random_network
from torch import nn

from cacheinf_ros.graph.interpret import DenseGraph

SEEDS = [0, 3, 11]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU())
        self.again = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.body(image)
        x = torch.sigmoid(x + self.again(x))
        return {"map": x, "scores": self.head(x.mean((2, 3)))}


@pytest.mark.parametrize("seed", SEEDS)
def test_intermediate_tensors_lead_to_the_outputs(seed: int) -> None:
    network = random_network(seed)
    graph = graph_of(network, network.input_size)
    dense, image = DenseGraph(graph), torch.randn(1, 3, *network.input_size)
    with torch.inference_mode():
        tensors, outputs = dense.tensors(image), dense(image)
    assert torch.equal(tensors[graph.input], image)
    for name, tensor in graph.outputs:
        assert torch.allclose(tensors[tensor], outputs[name], atol=1e-5)


def test_gradients_are_those_of_the_module() -> None:
    module = Net().eval()
    graph = graph_of(module, (9, 10))
    image = torch.randn(1, 3, 9, 10)
    ours, theirs = image.clone().requires_grad_(), image.clone().requires_grad_()
    sum(v.square().sum() for v in DenseGraph(graph)(ours).values()).backward()
    sum(v.square().sum() for v in module(theirs).values()).backward()
    assert torch.allclose(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_by_every_tensor_that_the_outputs_depend_on(seed: int) -> None:
    network = random_network(seed)
    graph = graph_of(network, network.input_size)
    tensors = DenseGraph(graph).tensors(torch.randn(1, 3, *network.input_size, requires_grad=True))
    total = sum(tensors[name].sum() for _, name in graph.outputs)
    wanted = [value for value in tensors.values() if value.requires_grad]
    gradients = torch.autograd.grad(total, wanted, allow_unused=True)
    assert gradients[0] is not None


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_a_norm_of_groups_far_from_zero_is_as_accurate_as_the_network(groups: int) -> None:
    module = nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(groups, 6)).eval()
    nn.init.constant_(module[0].bias, 10.0)
    assert_same_function(graph_of(module, (60, 63)), module, (60, 63))


def test_the_input_is_not_changed() -> None:
    module = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(3, 3, 1), nn.ReLU(inplace=True)).eval()
    graph = graph_of(module, (6, 7))
    image = torch.randn(1, 3, 6, 7)
    before = image.clone()
    with torch.inference_mode():
        DenseGraph(graph)(image)
    assert torch.equal(image, before)


def test_channels_last_stays() -> None:
    graph = graph_of(Net().eval(), (9, 10))
    image = torch.randn(1, 3, 9, 10).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        result = DenseGraph(graph)(image)["map"]
    assert result.is_contiguous(memory_format=torch.channels_last)


def test_two_interpreters_are_independent() -> None:
    graph = graph_of(Net().eval(), (9, 10))
    first, second = DenseGraph(graph), DenseGraph(graph)
    image = torch.randn(1, 3, 9, 10)
    with torch.inference_mode():
        expected = first(image)["map"].clone()
        second(torch.randn(1, 3, 9, 10))
        assert torch.equal(first(image)["map"], expected)
