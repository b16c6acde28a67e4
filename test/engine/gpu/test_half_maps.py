# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""With feature maps in 16 bits cached frames equal dense ones by the same kernels, and are near those in float32."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from interpreted_bfloat16 import rounded, widened
from networks.random_models import random_model, seeds
from networks.shared_models import mixed_model
from programs import change, changing_frames
from triton_devices import DEVICE, HALVES, TRITON

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.backends.triton_backend import TritonBackend
from cacheinf_ros.engine.buffers import MapShape, allocate_maps
from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.half_maps import with_maps_in
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.lifetimes import map_bytes
from cacheinf_ros.engine.program import Program
from cacheinf_ros.mode import Mode

MIXED = mixed_model()
half = pytest.mark.parametrize("half", HALVES, ids=lambda backend: str(backend.floats).removeprefix("torch."))


def nrmse(ours: torch.Tensor, reference: torch.Tensor) -> float:
    return float((ours - reference).square().mean().sqrt() / reference.std().clamp(min=1e-6))


@settings(max_examples=1, phases=(Phase.explicit, Phase.generate))  # shrinking takes minutes, and tells nothing new
@given(seed=seeds, half=st.sampled_from(HALVES), share=st.sampled_from([0.0, 0.5, 1.0]))
def test_random_networks(seed: int, half: TritonBackend, share: float) -> None:
    """Cached frames equal dense ones bit for bit, with any maps dropped and memory that is not alive poisoned."""
    graph = with_maps_in(random_model(seed).graph, half.floats)
    rng = np.random.default_rng(seed)
    dropped = frozenset(name for name in droppable(lay_out(graph)) if rng.random() < share)
    cached, whole = Program(graph, half, Caching(dropped=dropped), debug_memory=True), Program(graph, half)
    for frame, image, mask, outside in changing_frames(whole.input.size, rng, 2):
        change(cached, image.to(DEVICE), mask)
        ours = cached.execute(refresh=frame == 0, outside=outside)
        change(whole, image.to(DEVICE), mask)
        whole.changed_input.fill()
        for (name, value), expected in zip(ours.items(), whole.execute(refresh=True).values(), strict=True):
            assert not torch.as_tensor(value).isnan().any(), f"frame {frame} reads a map that is not alive"
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(expected)), f"{name} of frame {frame}"


@half
def test_they_are_near_float32(half: TritonBackend) -> None:
    programs = [Program(with_maps_in(MIXED.graph, half.floats), half), Program(MIXED.graph, TRITON)]
    for frame, image, mask, outside in changing_frames((61, 47), np.random.default_rng(0), 2):
        outputs = []
        for program in programs:
            change(program, image.to(DEVICE), mask)
            outputs.append(program.execute(refresh=frame == 0, outside=outside))
        for ours, reference in zip(outputs[0].values(), outputs[1].values(), strict=True):
            assert ours.dtype is torch.float32
            assert 0 < nrmse(ours, reference) < 2e-2
        assert programs[0].active_share == programs[1].active_share


def test_an_engine_follows_a_scene(monkeypatch: pytest.MonkeyPatch, half: TritonBackend = HALVES[0]) -> None:
    """The whole path from frame to outputs is tested: the third frame moves all maps, and what enters is changed."""
    chooses = importlib.import_module("cacheinf_ros.engine.quantisation.executed_model")
    engines = []
    for backend in (half, choose_backend("cpu", 1)):
        monkeypatch.setattr(chooses, "choose_backend", lambda *_, backend=backend: backend)
        engines.append(Engine(MIXED, EngineConfig(mode=Mode.DEEPCACHE, dense_fallback=False)))
    assert engines[0].kernel_name == half.name
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 255, (61, 47, 3), np.uint8)
    for number in range(3):
        reusable = None
        if number:
            blocks = np.ones((4, 3), np.bool_)
            blocks[number, 1] = False
            frame = rng.integers(0, 255, (61, 47, 3), np.uint8)
            motion = Motion.translation(8.0, 0.0) if number == 2 else Motion.none()
            reusable = CacheMap(image_size=(61, 47), block_size=16, reusable=blocks, motion=motion)
        results = [engine.run(frame, reusable) for engine in engines]
        assert results[0].active_share == results[1].active_share
        for name, value in results[0].outputs.items():
            assert value.dtype == np.float32
            assert nrmse(torch.from_numpy(value), torch.from_numpy(results[1].outputs[name])) < 2e-2


@half
def test_they_take_half_of_the_memory(half: TritonBackend) -> None:
    graph = with_maps_in(MIXED.graph, half.floats)
    layout, wide = lay_out(graph), lay_out(MIXED.graph)
    outputs = {layout.root(tensor) for _, tensor in graph.outputs}
    sizes = {name: (map_bytes(layout, name), map_bytes(wide, name)) for name in layout.maps}
    assert all(own == (full if layout.root(name) in outputs else full // 2) for name, (own, full) in sizes.items())
    kept = Program(graph, half).maps
    assert kept.cache_bytes == sum(own for name, (own, _) in sizes.items() if name not in layout.views)
    dropped = Caching.nothing(layout)
    arenas = [Program(g, b, dropped).maps.arena_bytes for g, b in ((graph, half), (MIXED.graph, TRITON))]
    assert arenas[0] < 0.6 * arenas[1]


@pytest.mark.parametrize("floats", [torch.float16, torch.bfloat16])
def test_what_enters_is_far_from_every_value_and_a_number(floats: torch.dtype) -> None:
    (buffer,) = allocate_maps([MapShape(size=(4, 6), channels=2, floats=floats)], torch.device("cpu"))
    buffer.expose(2, -1)
    entered = buffer.image[0, :, -1]
    assert bool(entered.isfinite().all()) and float(entered.min()) > 1e4


@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_the_repaired_interpreter_rounds_as_torch(bits: list[int]) -> None:
    values = np.array(bits, np.uint32).view(np.float32)
    expected = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(widened(rounded(values)), expected)
