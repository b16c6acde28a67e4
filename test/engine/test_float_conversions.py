# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of where conversions between maps of 16 bits and of float32 are placed."""

from __future__ import annotations

import torch
from torch import nn

from cacheinf_ros.engine.float_conversions import with_conversions
from cacheinf_ros.engine.half_maps import with_maps_in
from cacheinf_ros.graph import Graph, ModelCard, model_of
from cacheinf_ros.graph.ir import Conv, Convert, PixelShuffle


class _Enlarging(nn.Module):
    """A network whose output is a pixel shuffle of a convolution; another layer reads that too if ``is_read_twice``."""

    def __init__(self, *, is_read_twice: bool) -> None:
        super().__init__()
        self.first, self.enlarge, self.beside = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 1), nn.Conv2d(16, 4, 1)
        self.is_read_twice = is_read_twice

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        small = self.enlarge(self.first(image).relu()).relu()
        enlarged = nn.functional.pixel_shuffle(small, 2)
        return (enlarged, self.beside(small)) if self.is_read_twice else (enlarged,)


def _halved(*, is_read_twice: bool) -> Graph:
    module = _Enlarging(is_read_twice=is_read_twice)
    graph = model_of(module, ModelCard(name="enlarging", input_size=(32, 48))).graph
    return with_conversions(with_maps_in(graph, torch.bfloat16))


def _shuffled_floats(graph: Graph) -> tuple[torch.dtype, bool]:
    """Return the dtype that the convolution before the shuffle writes, and whether a conversion follows it."""
    (shuffle,) = (operator for operator in graph.operators if isinstance(operator, PixelShuffle))
    before = next(operator for operator in graph.operators if operator.output == shuffle.inputs[0])
    is_converted = isinstance(before, Convert)
    name = before.inputs[0] if is_converted else before.output
    assert any(isinstance(operator, Conv) and operator.output == name for operator in graph.operators)
    return graph.tensors[name].floats, is_converted


class _Softmax(nn.Module):
    """A softmax, computed in float32, that a convolution reads and that is added to an output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = (nn.Conv2d(3 if i == 0 else 8, 8, 3, padding=1) for i in range(3))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = self.second(self.first(image).relu()).softmax(1)
        return self.last(shares), shares.tanh()


def test_what_is_there_in_float32_is_not_made_of_what_was_rounded() -> None:
    graph = model_of(_Softmax().eval(), ModelCard(name="softmax", input_size=(32, 48))).graph
    graph = with_conversions(with_maps_in(graph, torch.bfloat16))
    to_float32 = [
        o for o in graph.operators if isinstance(o, Convert) and graph.tensors[o.output].floats is torch.float32
    ]
    written = {operator.output: operator for operator in graph.operators}
    for operator in to_float32:  # a map that was float32 before is not converted back
        assert not isinstance(written.get(operator.inputs[0]), Convert)
    assert not any(name.endswith("'") for name in graph.tensors)


def test_a_convolution_writes_what_is_read() -> None:
    assert _shuffled_floats(_halved(is_read_twice=False)) == (torch.float32, False)


def test_what_a_convolution_reads_too_is_converted() -> None:
    assert _shuffled_floats(_halved(is_read_twice=True)) == (torch.bfloat16, True)
