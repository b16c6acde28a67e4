# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Fewer kernels, smaller dense layers, larger strides and fewer layers: small networks, worked out by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
from networks.small import mixed
from torch import nn

from cacheinf_ros.catalog.build.techniques import Change, Inapplicable, Technique, perform, planned
from cacheinf_ros.catalog.build.techniques.coupling import couple
from cacheinf_ros.catalog.build.techniques.layers import least_missed, removable, remove
from cacheinf_ros.catalog.build.techniques.prune import prune
from cacheinf_ros.catalog.build.techniques.stride import larger_stride
from cacheinf_ros.graph.scenenames import scenenames
from cacheinf_ros.graph.scenenet import Residual, scenenet


class Classifier(nn.Module):
    """A network with a convolution, norm, depthwise, residual, flatten of 2 x 2 pixels, and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.dense = nn.Linear(16, 6)
        self.last = nn.Linear(6, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.first(image)
        x = x + self.second(x)
        x = torch.flatten(self.pool(torch.relu(self.depthwise(x))), 1)
        return self.last(torch.relu(self.dense(x)))


@pytest.fixture
def network() -> Classifier:
    torch.manual_seed(0)
    return Classifier().eval()


def test_channels_that_are_added_go_together(network):
    coupling = couple(network, (8, 8))
    assert coupling.root(coupling.made["first.0"]) == coupling.root(coupling.made["second"])
    assert coupling.read["dense"][0].repeat == 4
    assert coupling.is_fixed(coupling.made["last"]) and not coupling.is_fixed(coupling.made["dense"])


def test_pruning_what_is_silent_changes_nothing(network):
    """Two channels of four are zero everywhere, so that the outputs stay the same without them."""
    with torch.no_grad():
        for layer in (network.first[0], network.second):
            layer.weight[[1, 3]] = 0
            layer.bias[[1, 3]] = 0
        network.depthwise.bias[[1, 3]] = 0
        network.first[1].bias[[1, 3]] = 0
    pruned = prune(network, nn.Conv2d, 0.5, (8, 8))
    image = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(pruned(image), network(image), atol=1e-6, rtol=1e-5)
    assert pruned.dense.in_features == 8 and pruned.depthwise.groups == 2 and pruned.first[1].num_features == 2


def test_smaller_dense_layers_leave_convolutions_alone(network):
    pruned = prune(network, nn.Linear, 0.5, (8, 8))
    assert (pruned.dense.out_features, pruned.last.in_features, pruned.last.out_features) == (3, 3, 5)
    assert pruned.first[0].out_channels == 4 and network.dense.out_features == 6


def test_what_is_not_understood_stays_whole():
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.two(torch.roll(self.one(image), 1, 1))

    with pytest.raises(Inapplicable, match="no convolutions whose outputs it could do without"):
        prune(Odd().eval(), nn.Conv2d, 0.5, (8, 8))


def test_code_that_cannot_be_traced_is_named():
    class Branching(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return image if image.sum() > 0 else -image

    with pytest.raises(Inapplicable, match="its code cannot be traced: TraceError"):
        prune(Branching(), nn.Conv2d, 0.5, (8, 8))


@pytest.mark.parametrize(
    ("make", "technique"),
    [
        *itertools.product((scenenet, scenenames, mixed), (Technique.FACTORISE, Technique.FEWER_KERNELS)),
        *itertools.product((scenenet, scenenames), (Technique.LARGER_STRIDE,)),
    ],
)
def test_outputs_keep_their_shapes(make, technique):
    network, size = make().eval(), (64, 96)
    image = torch.randn(1, 3, *size)
    strength = 2.0 if technique is Technique.LARGER_STRIDE else 0.5
    changed = perform(network, (Change(technique=technique, strength=strength),), size)
    before, after = network(image), changed(image)
    if isinstance(before, dict):
        assert {k: v.shape for k, v in before.items()} == {k: v.shape for k, v in after.items()}
    else:
        assert before.shape == after.shape
    assert not changed.training


def test_a_detectors_stride_is_made_up_for_later():
    changed = larger_stride(scenenet().eval(), 2, (64, 96))
    assert changed.stem[0][0].stride == (4, 4) and changed.down[0].stride == (1, 1)


def test_a_stride_that_nothing_makes_up_for():
    with pytest.raises(Inapplicable, match="its outputs change their shape with 2 times the stride"):
        larger_stride(nn.Sequential(nn.Conv2d(3, 2, 3)), 2, (8, 8))


def test_layers_that_keep_the_shape():
    network = scenenames().eval()
    names = removable(network, torch.zeros(1, 3, 64, 64))
    assert "trunk.3" in names and "trunk.2" not in names and "head" not in names


def test_the_layer_that_does_least_is_left_out():
    torch.manual_seed(0)
    network = nn.Sequential(Residual(3), Residual(3), nn.Conv2d(3, 2, 1)).eval()
    with torch.no_grad():
        network[1].second[0].weight.zero_()  # the residual adds nothing
    images = [torch.rand(1, 3, 8, 8)]
    assert least_missed(network, 1, images)[0] in ("1", "1.first", "1.second")
    two = least_missed(network, 2, images)
    assert len(two) == 2
    torch.testing.assert_close(remove(network, ["1"])(images[0]), network(images[0]))


def test_nothing_to_leave_out():
    with pytest.raises(Inapplicable, match="it has no layers that keep the shape"):
        planned(nn.Sequential(nn.Conv2d(3, 2, 1)).eval(), Technique.FEWER_LAYERS, 1, [torch.zeros(1, 3, 4, 4)])
    with pytest.raises(Inapplicable, match="it has no layer 'nowhere'"):
        remove(nn.Sequential(), ["nowhere"])
