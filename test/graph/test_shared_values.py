# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Values that engines derive from a model's weights exist once for all of them, and go with the last."""

from __future__ import annotations

import gc

import psutil
import torch

from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.graph import ModelCard, model_of
from cacheinf_ros.graph.shared_values import SharedValues

MB = 1e6


class Heavy(torch.nn.Module):
    """A network with 38 MB of weights, and almost no feature maps."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = torch.nn.Conv2d(3, 1024, 1)
        self.conv = torch.nn.Conv2d(1024, 1024, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.widen(x)).mean(dim=(2, 3))


def test_a_value_is_made_once_while_somebody_holds_it() -> None:
    shared, source, made = SharedValues(), object(), []

    def make() -> list[int]:
        made.append(1)
        return list(made)

    first = shared.get(source, "kind", make)
    assert shared.get(source, "kind", make) is first
    assert shared.get(source, "other", make).value == [1, 1]
    assert shared.get(object(), "kind", make).value == [1, 1, 1]
    del first
    assert shared.get(source, "kind", make).value == [1] * 4


def test_engines_of_one_model_share_its_packed_weights() -> None:
    torch.manual_seed(0)
    model = model_of(Heavy(), ModelCard(name="heavy", input_size=(4, 4)))
    process, config = psutil.Process(), EngineConfig(threads=1)

    def used_mb() -> float:
        gc.collect()
        return process.memory_info().rss / MB

    engines = [Engine(model, config)]
    with_one = used_mb()
    engines.append(Engine(model, config))
    assert used_mb() - with_one < 19  # 38 without sharing
    image = torch.randint(0, 256, (4, 4, 3), dtype=torch.uint8).numpy()
    outputs = [next(iter(engine.run(image, None).outputs.values())) for engine in engines]
    assert (outputs[0] == outputs[1]).all()
