# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX models that were quantised before run with their own scales, as ONNX Runtime runs them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from networks.lowered import graph_of

from cacheinf_ros.engine import Engine, EngineConfig, Precision, Preprocessor, quantise_onnx
from cacheinf_ros.engine.quantisation import int8_graph
from cacheinf_ros.engine.quantisation.embedded import _units
from cacheinf_ros.graph import Scales, load_model
from cacheinf_ros.graph.ir import Conv, Int8Conv, Levels

SIZE = (24, 32)


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, 2, 1)
        self.deep = torch.nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.wide = torch.nn.Conv2d(16, 16, 1)
        self.last = torch.nn.Conv2d(32, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        y = torch.relu(self.wide(self.deep(x)) + x)
        return self.last(torch.cat([torch.nn.functional.max_pool2d(y, 3, 1, 1), x], 1))


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Quantise a network as ONNX Runtime does: weights per channel, activations per tensor."""
    folder = tmp_path_factory.mktemp("quantised")
    torch.manual_seed(0)
    torch.onnx.export(Small().eval(), (torch.zeros(1, 3, *SIZE),), str(folder / quantise_onnx.MODEL), dynamo=False)
    images = np.random.default_rng(0).normal(0, 1, (4, 3, *SIZE)).astype(np.float32)
    np.save(folder / quantise_onnx.INPUTS, images)
    quantise_onnx.quantise(folder)
    return folder / quantise_onnx.QUANTISED


def test_a_quantised_file_gives_what_onnx_runtime_gives(quantised: Path) -> None:
    model = load_model(str(quantised))
    image = np.random.default_rng(1).integers(0, 256, (*SIZE, 3), np.uint8)
    given = Preprocessor(model.card).input(image)
    session = onnxruntime.InferenceSession(str(quantised), providers=["CPUExecutionProvider"])
    expected: Any = session.run(None, {session.get_inputs()[0].name: given})[0]
    engine = Engine(model, EngineConfig(precision=Precision.INT8, threads=1))
    graph = engine.program.layout.graph
    assert all(isinstance(o, Int8Conv) for o in graph.operators if isinstance(o, Conv))
    (ours,) = engine.run(image, None).outputs.values()
    step = np.diff(np.unique(expected)).min()  # its outputs are levels too
    difference = np.abs(ours - expected) / step
    assert difference.max() < 1.01 and (difference > 0.1).mean() < 0.05

    (floats,) = Engine(model, EngineConfig(threads=1)).run(image, None).outputs.values()
    assert np.abs(floats - expected).max() / step < 1.01, "and in float32 its rounding is kept"


def conv(*rows: list[float], bias: float = 0.5) -> Conv:
    weight = torch.tensor(rows, dtype=torch.float32)[:, :, None, None]
    module = torch.nn.Conv2d(weight.shape[1], len(rows), 1)
    with torch.no_grad():
        module.weight.copy_(weight)
        module.bias.fill_(bias)
    (found,) = (o for o in graph_of(module.eval(), (4, 4)).operators if isinstance(o, Conv))
    return found


def test_units_are_those_that_the_file_rounded_to() -> None:
    """Weights may go down to -128 units; of 8 bits from another level of zero, up to 255, each is rounded anew."""
    units = _units(conv([-1.28, 0.5, 0.03], [1.27, -0.02, 0.0], [2.55, 0.01, 0.0], [0.0, 0.0, 0.0]))
    assert units is not None
    np.testing.assert_allclose(units[:3], [0.01, 0.01, 2.55 / 127], rtol=1e-5)


def test_weights_that_were_not_rounded_are_known() -> None:
    weights = np.random.default_rng(0).normal(0, 1, (2, 3)).tolist()
    assert _units(conv(*weights)) is None


def test_a_channel_without_weights_keeps_its_bias() -> None:
    """ONNX Runtime gives it any unit; with one too small the bias was cut to nothing."""
    dead = conv([0.0, 0.0, 0.0], [1.27, -0.02, 0.0])
    levels = Levels(scale=0.02, zero=0)
    units = _units(dead)
    assert units is not None
    graph = graph_of(torch.nn.Conv2d(3, 2, 1).eval(), (4, 4))
    graph = replace(graph, operators=(replace(dead, inputs=(graph.input,), output=graph.operators[0].output),))
    made = int8_graph(graph, Scales(levels={graph.input: levels}, weight_scales={graph.operators[0].output: units}))
    (rounded,) = (o for o in made.operators if isinstance(o, Int8Conv))
    steps = rounded.bias / (levels.scale * rounded.weight_scale)
    assert bool((steps.abs() <= 2**29 * 1.001).all())
    np.testing.assert_allclose(rounded.weight_scale[1], 0.01, rtol=1e-5)
