# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which operators form the stem, and that keeping it in float32 is worth it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from cacheinf_ros.engine import Precision
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.float_conversions import computed_in_float32, with_conversions
from cacheinf_ros.engine.half_maps import with_maps_in
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.stem import NO_STEM, Stem, stem_of
from cacheinf_ros.graph import Graph, ModelCard, load_model, model_of
from cacheinf_ros.graph.ir import Conv
from cacheinf_ros.sources import open_source

BACKEND = choose_backend("cpu", 2, Precision.BFLOAT16)


class _TwoPaths(nn.Module):
    """Three convolutions in a row, and one beside them that reads the pooled input, as in ESPNet."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.third, self.beside = nn.Conv2d(8, 8, 1), nn.Conv2d(3, 8, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pooled = nn.functional.avg_pool2d(image, 2)
        third = self.third(nn.functional.max_pool2d(self.second(self.first(image).relu()).relu(), 2))
        return torch.cat([nn.functional.interpolate(third, scale_factor=2.0), self.beside(pooled)], 1).sigmoid()


def _graph() -> Graph:
    return model_of(_TwoPaths(), ModelCard(name="two_paths", input_size=(32, 48))).graph


def _names(graph: Graph, convolutions: frozenset[str]) -> list[tuple[int, ...]]:
    return [tuple(op.weight.shape) for op in graph.operators if isinstance(op, Conv) and op.output in convolutions]


def test_two_convolutions_of_each_path_are_the_stem() -> None:
    graph = _graph()
    stem = stem_of(graph)
    assert _names(graph, stem.convolutions) == [(8, 3, 3, 3), (8, 8, 3, 3), (8, 3, 1, 1)]
    sizes = sorted(tuple(graph.tensors[name].shape[1:]) for name in stem.maps)
    assert (3, 32, 48) in sizes  # the input
    assert (3, 16, 24) in sizes  # pooled
    assert (8, 16, 24) in sizes  # the first convolution's output
    assert (8, 8, 12) not in sizes  # the second one's, pooled


def test_they_read_float32_and_no_other_convolution_does() -> None:
    graph = _graph()
    stem = stem_of(graph)
    converted = with_conversions(with_maps_in(graph, torch.bfloat16, stem), stem)
    wide = [
        tuple(op.weight.shape)
        for op in converted.operators
        if isinstance(op, Conv) and converted.tensors[op.inputs[0]].floats is torch.float32
    ]
    assert wide == _names(graph, stem.convolutions)
    assert len(computed_in_float32(converted)) == len(wide)


@pytest.mark.skipif(BACKEND.floats is torch.float32, reason="the compiled kernels are not built")
def test_outputs_deviate_less_with_a_stem() -> None:
    model = load_model("scenenet", input_size=(240, 320))
    frame = next(iter(open_source("scene:fixed?size=240x320"))).image
    stem, preprocessor = stem_of(model.graph), Preprocessor(model.card)

    def outputs(graph: Graph, precision: Precision) -> list[torch.Tensor]:
        backend = choose_backend("cpu", 2, precision)
        program = Program(graph, backend)
        backend.input(preprocessor, program.input).write_all(frame, program.changed_input)
        return [torch.as_tensor(value).clone() for value in program.execute(refresh=True).values()]

    exact = outputs(model.graph, Precision.FLOAT32)

    def deviation(kept: Stem) -> float:
        found = outputs(with_conversions(with_maps_in(model.graph, torch.bfloat16, kept), kept), Precision.BFLOAT16)
        return float(np.mean([(a - b).square().mean().sqrt() / b.std() for a, b in zip(found, exact, strict=True)]))

    assert deviation(stem) < 0.8 * deviation(NO_STEM)
