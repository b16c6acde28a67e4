# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""DeepCache mode moves caches, and is exact in known cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.shared_models import mixed_model
from oracle import assert_equals_dense, changed

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode, Preprocessor
from cacheinf_ros.graph import ModelCard, load_model, model_of

MIXED = mixed_model()


@settings(deadline=None, max_examples=25)
@given(
    size=st.sampled_from([(61, 47), (90, 80), (122, 94)]),
    shares=st.lists(st.sampled_from([0.0, 0.02, 0.1, 0.6]), min_size=3, max_size=3),
    seed=st.integers(0, 10000),
)
def test_without_motion_and_loss_it_equals_dense(size: tuple[int, int], shares: list[float], seed: int) -> None:
    """Reusable outputs have their whole receptive field in unchanged blocks, so nothing is approximated."""
    rng = np.random.default_rng(seed)
    engine = Engine(MIXED, EngineConfig(mode=Mode.DEEPCACHE, dense_fallback=False))
    image = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    assert_equals_dense(engine, image, None)
    for share in shares:
        image, cache_map = changed(image, 10, share, rng)
        assert_equals_dense(engine, image, cache_map)


def test_a_moved_picture_reuses_moved_features(tmp_path: Path) -> None:
    """A shift by a multiple of the total stride moves the features exactly, so that they equal dense execution."""
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def net():\n"
        "    stem = [nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU()]\n"
        "    return nn.Sequential(*stem, nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 4, 3, 1, 1))\n"
    )
    engine = Engine(
        load_model(f"{tmp_path / 'net.py'}:net", input_size=(80, 120)),
        EngineConfig(mode=Mode.DEEPCACHE, dense_fallback=False),
    )
    rng = np.random.default_rng(0)
    world = rng.integers(0, 256, (100, 200, 3), dtype=np.uint8)
    engine.run(world[:80, 40:160], None)
    image = world[8:88, 32:152]  # the picture moves 8 pixels right and 8 up
    reusable = np.ones((10, 15), bool)
    reusable[-1] = False
    reusable[:, 0] = False
    cache_map = CacheMap.of_blocks(reusable, (80, 120), 8, Motion.translation(8, -8))
    result = engine.run(np.ascontiguousarray(image), cache_map)
    with torch.inference_mode():
        exact = engine.model.module(torch.from_numpy(Preprocessor(engine.model.card).input(image))).numpy()
    assert np.abs(result.outputs["output"] - exact).max() < 1e-5
    assert 0 < result.active_share < 0.6


def test_expired_maps_recompute_everything() -> None:
    engine = Engine(MIXED, EngineConfig(mode=Mode.DEEPCACHE, dense_fallback=False))
    image = np.full((61, 47, 3), 80, np.uint8)
    engine.run(image, None)
    result = engine.run(image, CacheMap.nothing((61, 47), 10, "expired"))
    assert (result.mode, result.active_share) == (Mode.DENSE, 1.0)


@pytest.mark.parametrize(
    "layer",
    [torch.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), torch.nn.ReflectionPad2d(1)],
    ids=["aligned corners", "reflection"],
)
def test_what_resamples_unevenly_is_not_computed_whole_where_the_picture_moves(layer: torch.nn.Module) -> None:
    """No shift is the same on both sides of it, so nothing is gained by marking its outputs as the image's ends."""
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 1, 1), layer, torch.nn.Conv2d(4, 4, 1)).eval()
    model = model_of(network, ModelCard(name="uneven", input_size=(80, 120)))
    engine = Engine(model, EngineConfig(mode=Mode.DEEPCACHE, dense_fallback=False))
    world = np.random.default_rng(0).integers(0, 256, (100, 200, 3), dtype=np.uint8)
    engine.run(world[:80, 40:160], None)
    reusable = np.ones((10, 15), bool)
    reusable[-1] = False
    reusable[:, 0] = False
    cache_map = CacheMap.of_blocks(reusable, (80, 120), 8, Motion.translation(8, -8))
    result = engine.run(np.ascontiguousarray(world[8:88, 32:152]), cache_map)
    assert 0 < result.active_share < 0.5
