# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX models that were quantised before run with their own scales, as ONNX Runtime runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from cacheinf_ros.engine import Engine, EngineConfig, Precision, Preprocessor, quantise_onnx
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.ir import Conv, Int8Conv

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
