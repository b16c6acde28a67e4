# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the receptive field, worked out by hand and measured by gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.lowered import graph_of
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.graph.receptive_field import receptive_field


def field_of(module: nn.Module, size: tuple[int, int]) -> tuple[int, int]:
    graph = graph_of(module.eval(), size)
    return receptive_field(graph, graph.outputs[0][1])


def by_gradient(module: nn.Module, size: tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) of the region of the image that influences the middle pixel of the output."""
    image = torch.rand(1, 3, *size, requires_grad=True)
    output = module.eval()(image)
    output[0, :, output.shape[2] // 2, output.shape[3] // 2].sum().backward()
    assert image.grad is not None
    rows, columns = np.nonzero(image.grad[0].abs().sum(0).numpy())
    return int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1


class Upsampled(nn.Module):
    """A residual from another path that goes down and up again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.down = nn.Conv2d(4, 16, 3, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        first = self.first(image)
        return first + functional.pixel_shuffle(self.down(first), 2)


def test_layers_add_up_by_hand() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 1, 2, dilation=2), nn.Conv2d(4, 4, (1, 3)))
    # last: 1 x 3 pixels at half size; before: + 4 in each direction; first: (n - 1) * 2 + 3
    assert field_of(layers, (64, 64)) == ((5 - 1) * 2 + 3, (7 - 1) * 2 + 3)


@pytest.mark.parametrize("size", [(20, 24), (33, 18)])
def test_a_global_operator_sees_everything(size: tuple[int, int]) -> None:
    assert field_of(nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), size) == size


def test_never_more_than_the_image() -> None:
    assert field_of(nn.Conv2d(3, 4, 9, padding=4), (5, 30)) == (5, 9)


def test_ways_unite() -> None:
    assert field_of(Upsampled(), (24, 24)) == by_gradient(Upsampled(), (24, 24))


@settings(max_examples=15)
@given(st.data())
def test_equals_what_gradients_reach(data: st.DataObject) -> None:
    layers: list[nn.Module] = []
    for _ in range(data.draw(st.integers(1, 3))):
        kernel, stride, dilation = (data.draw(st.integers(1, n)) for n in (4, 2, 3))
        layers.append(nn.Conv2d(3, 3, kernel, stride, dilation * (kernel - 1) // 2, dilation))
    if data.draw(st.booleans()):
        layers.append(nn.Upsample(scale_factor=2, mode=data.draw(st.sampled_from(["nearest", "bilinear"]))))
    size = data.draw(st.integers(100, 110)), data.draw(st.integers(100, 110))  # so large that no window is cut
    module = nn.Sequential(*layers)
    assert field_of(module, size) == by_gradient(module, size)
