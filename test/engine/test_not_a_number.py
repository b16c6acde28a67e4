# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""NaN and infinite values in feature maps last no longer than in dense execution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lowered import graph_of
from oracle import assert_result_equals_dense
from programs import change
from triton_devices import TRITON

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.engine.backends import Backend, ReferenceBackend, choose_backend
from cacheinf_ros.engine.delta_threshold import NOTHING_CHANGED, Criterion, DeltaThreshold
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import ModelCard, model_of

SIZE = (12, 20)
BACKENDS = [choose_backend("cpu", 1), ReferenceBackend(torch.device("cpu")), TRITON]


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3, 1, 1), torch.nn.Conv2d(5, 4, 1)).eval()


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("criterion", Criterion)
def test_what_is_no_number_is_replaced_whatever_is_held_back(backend: Backend, criterion: Criterion) -> None:
    graph = graph_of(network(), SIZE)
    held, exact = Program(graph, backend), Program(graph, backend)
    held.set_thresholds({name: DeltaThreshold(threshold=1e-6, criterion=criterion) for name in held.kept})
    everything, one = np.ones(SIZE, np.uint8), np.zeros(SIZE, np.uint8)
    one[5, 7] = 1
    sound = torch.rand((*SIZE, 3))
    for value in (float("nan"), float("inf")):
        broken = sound.clone()
        broken[5, 7] = value
        for image, mask in ((broken, everything), (sound, one), (broken, one), (sound, one)):
            found = []
            for program in (held, exact):
                change(program, image, mask)
                found.append(next(iter(program.execute(refresh=mask is everything).values())).clone())
            np.testing.assert_allclose(found[0].cpu(), found[1].cpu(), atol=1e-4)
        assert torch.isfinite(found[0]).all()


@pytest.mark.parametrize("backend", BACKENDS[:2], ids=lambda backend: backend.name)
def test_the_same_infinite_values_again_are_no_change(backend: Backend) -> None:
    layer = torch.nn.Conv2d(3, 5, 1).eval()
    with torch.no_grad():
        layer.weight.abs_()  # otherwise infinities would be subtracted
    program = Program(graph_of(layer, SIZE), backend)
    program.set_thresholds(dict.fromkeys(program.kept, NOTHING_CHANGED))
    image, everything = torch.full((*SIZE, 3), float("inf")), np.ones(SIZE, np.uint8)
    change(program, image, everything)
    program.execute(refresh=True)
    change(program, image, everything)
    (found,) = program.execute().values()
    assert bool(torch.isinf(found).all())
    assert not any(program.plan.changed[name].count for name in program.kept)


class Standardised(torch.nn.Module):
    """Divides by the picture's own deviation, which is 0 where the picture is of one colour."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers((image - image.mean()) / image.std())


def test_a_black_frame_leaves_nothing_behind() -> None:
    model = model_of(Standardised(), ModelCard(name="standardised", input_size=SIZE))
    engine = Engine(model, EngineConfig(mode=Mode.EXACT, threads=1, dense_fallback=False))
    black = np.zeros((*SIZE, 3), np.uint8)
    engine.run(black, None)
    frame = black.copy()
    frame[:4] = np.random.default_rng(0).integers(0, 256, (4, SIZE[1], 3))
    reusable = np.ones((3, 5), bool)
    reusable[0] = False
    result = engine.run(frame, CacheMap.of_blocks(reusable, SIZE, 4, Motion.none()))
    assert all(np.isfinite(value).all() for value in result.outputs.values())
    assert_result_equals_dense(engine, result, frame)
