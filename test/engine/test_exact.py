# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Exact mode equals dense execution, whatever changes, for any number of frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.random_models import random_model, seeds
from networks.shared_models import mixed_model
from oracle import assert_equals_dense, assert_sequence_equals_dense, changed
from torch import nn

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import ModelCard, load_model, model_of

MIXED = mixed_model()


@settings(deadline=None, max_examples=25)
@given(
    size=st.sampled_from([(61, 47), (90, 80), (33, 120), (122, 94)]),
    block=st.sampled_from([5, 10, 16]),
    shares=st.lists(st.sampled_from([0.0, 0.02, 0.1, 0.6, 1.0]), min_size=5, max_size=5),
    seed=st.integers(0, 10000),
)
def test_sequences_equal_dense(size: tuple[int, int], block: int, shares: list[float], seed: int) -> None:
    """Frames have any size (they are resized) and any masks, five in a row."""
    rng = np.random.default_rng(seed)
    engine = Engine(MIXED, EngineConfig(mode=Mode.EXACT, dense_fallback=False))
    image = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    assert_equals_dense(engine, image, None)
    for share in shares:
        image, cache_map = changed(image, block, share, rng)
        assert_equals_dense(engine, image, cache_map)


@pytest.mark.parametrize("name", ["FastestDet.onnx", "RFB-320_without_postprocessing.onnx"])
def test_detectors_equal_dense(name: str, shared_data: Path) -> None:
    model = load_model(str(shared_data / "models" / name))
    assert model.graph.unknown == ()
    assert_sequence_equals_dense(model)


class Swirled(nn.Module):
    """Reads feature maps at places between pixels, which the engine does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 5, 1)
        self.register_buffer("grid", torch.rand(1, 40, 56, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.first(image).relu()
        return self.last(nn.functional.grid_sample(features, self.grid, align_corners=False) + features)


def test_operators_that_are_not_known_equal_dense() -> None:
    model = model_of(Swirled().eval(), ModelCard(name="swirled", input_size=(40, 56)))
    assert model.graph.unknown == ("aten.grid_sampler.default",)
    assert_sequence_equals_dense(model)


def test_convolutions_in_three_dimensions_equal_dense() -> None:
    layers = nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Unflatten(1, (4, 4))  # feature maps as the layers of a volume
    volume = nn.Conv3d(4, 2, 3, padding=1), nn.ReLU(), nn.Flatten(1, 2)
    network = nn.Sequential(*layers, *volume, nn.Conv2d(8, 5, 1)).eval()
    model = model_of(network, ModelCard(name="volume", input_size=(40, 56)))
    assert model.graph.unknown == ()
    assert_sequence_equals_dense(model)


@settings(max_examples=25)
@given(seed=seeds)
def test_random_networks_equal_dense(seed: int) -> None:
    """Networks have all operators, in any order, at odd sizes."""
    assert_sequence_equals_dense(random_model(seed).model(), shares=(0.02, 0.0, 0.1, 0.5), block=3)


def test_nothing_changed_computes_nothing() -> None:
    engine = Engine(MIXED, EngineConfig())
    image = np.zeros((61, 47, 3), np.uint8)
    engine.run(image, None)
    everything = CacheMap.of_blocks(np.ones((7, 5), bool), (61, 47), 10, Motion.none())
    result = engine.run(image, everything)
    assert (result.active_share, result.reuse_ratio, result.mode) == (0.0, 1.0, Mode.EXACT)


def test_motion_is_not_followed() -> None:
    """Exact mode reuses at the same position only: a moved picture is computed anew."""
    engine = Engine(MIXED, EngineConfig(mode=Mode.EXACT, dense_fallback=False))
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (61, 47, 3), dtype=np.uint8)
    engine.run(image, None)
    moved = CacheMap.of_blocks(np.ones((7, 5), bool), (61, 47), 10, Motion.translation(10, 0))
    assert_equals_dense(engine, np.roll(image, 10, axis=1), moved)


def test_engines_are_independent() -> None:
    rng = np.random.default_rng(0)
    engines = [Engine(MIXED, EngineConfig()) for _ in range(2)]
    images = [rng.integers(0, 256, (61, 47, 3), dtype=np.uint8) for _ in engines]
    for engine, image in zip(engines, images, strict=True):
        engine.run(image, None)
    for engine, image in zip(engines, images, strict=True):
        image, cache_map = changed(image, 10, 0.1, rng)
        assert_equals_dense(engine, image, cache_map)


def test_bad_frames_are_named_and_leave_a_usable_engine() -> None:
    engine = Engine(MIXED, EngineConfig())
    image = np.zeros((61, 47, 3), np.uint8)
    engine.run(image, None)
    with pytest.raises(EngineError, match=r"a frame is uint8 \[height, width, 3\]"):
        engine.run(np.zeros((61, 47)), None)
    with pytest.raises(EngineError, match=r"the cache map is for \(20, 20\) pixels"):
        engine.run(image, None)
        engine.run(image, CacheMap.nothing((20, 20), 10))
    image = image + 100
    # The cache is empty after an error: a map must not make it look full.
    assert_equals_dense(engine, image, CacheMap.of_blocks(np.ones((7, 5), bool), (61, 47), 10, Motion.none()))


def test_reset_forgets_the_cache() -> None:
    engine = Engine(MIXED, EngineConfig())
    image = np.full((61, 47, 3), 50, np.uint8)
    engine.run(image, None)
    engine.reset()
    everything = CacheMap.of_blocks(np.ones((7, 5), bool), (61, 47), 10, Motion.none())
    assert_equals_dense(engine, image + 100, everything)
