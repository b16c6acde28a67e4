# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of what the configuration asks to keep, and of finding a stored choice again."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from networks.shared_models import mixed_model, small_scenenet
from oracle import assert_equals_dense, changed

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.disk_cache import KeptFile
from cacheinf_ros.engine import Cache, Engine, EngineConfig, Mode
from cacheinf_ros.engine.backends import ReferenceBackend
from cacheinf_ros.errors import EngineError

MIXED = mixed_model()


@pytest.fixture(autouse=True)
def _nothing_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("cacheinf_ros.engine.rematerialisation.map_choice._SEARCH_S", 0.5)


@pytest.mark.parametrize(
    "asked",
    [{"cache": Cache.MERGED}, {"cache_budget_mb": 0.1}, {"cache_budget_mb": 0.0}, {}],
    ids=["merged", "budget", "none", "all"],
)
def test_whatever_is_kept_exact_mode_equals_dense(asked: dict[str, object]) -> None:
    engine = Engine(MIXED, EngineConfig(mode=Mode.EXACT, dense_fallback=False, debug_memory=True).changed(**asked))
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (61, 47, 3), dtype=np.uint8)
    assert_equals_dense(engine, image, None)
    for share in (0.1, 0.0, 0.5):
        image, cache_map = changed(image, 10, share, rng)
        assert_equals_dense(engine, image, cache_map)


def test_less_is_kept_the_less_may_be() -> None:
    everything, merged, some, nothing = (
        Engine(MIXED, EngineConfig().changed(**asked))
        for asked in ({}, {"cache": Cache.MERGED}, {"cache_budget_mb": 0.1}, {"cache_budget_mb": 0.0})
    )
    assert everything.arena_bytes == 0 < nothing.arena_bytes
    assert merged.cache_bytes + merged.arena_bytes <= everything.cache_bytes
    ends = nothing.cache_bytes  # input and outputs
    assert ends < some.cache_bytes <= ends + 100_000


def test_merging_needs_to_know_what_operators_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs are measured for compiled kernels only."""
    chooses = importlib.import_module("cacheinf_ros.engine.quantisation.executed_model")
    monkeypatch.setattr(chooses, "choose_backend", lambda *_: ReferenceBackend(torch.device("cpu")))
    assert Engine(MIXED, EngineConfig(cache_budget_mb=0.0)).arena_bytes > 0
    with pytest.raises(EngineError, match="compiled kernels only"):
        Engine(MIXED, EngineConfig(cache=Cache.MERGED))


def test_kept_maps_follow_a_moving_camera(tmp_path: Path) -> None:
    """Bounded mode holds nothing back here: the picture moves, and kept maps move with it exactly."""
    config = EngineConfig(mode=Mode.BOUNDED, dense_fallback=False, debug_memory=True, max_motion_error=10.0)
    rng = np.random.default_rng(0)
    wide = rng.integers(0, 256, (96, 200, 3), dtype=np.uint8)
    model = small_scenenet()
    engines = [Engine(model, config), Engine(model, config.changed(cache_budget_mb=0.3))]
    assert engines[1].arena_bytes > 0
    rest = np.ones((10, 13), bool)
    for frame in range(4):
        image = np.ascontiguousarray(wide[:, 16 * frame : 16 * frame + 128])
        visible = rest.copy()
        visible[:, -2:] = False
        moved = CacheMap.of_blocks(visible, (96, 128), 10, Motion.translation(-16, 0)) if frame else None
        results = [engine.run(image, moved) for engine in engines]
        assert results[0].shift == results[1].shift == ((-16, 0) if frame else (0, 0))
        for ours, theirs in zip(*(result.outputs.values() for result in results), strict=True):
            assert np.array_equal(ours, theirs)


def test_a_choice_is_found_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = EngineConfig(cache=Cache.MERGED)
    first = Engine(MIXED, config).program.caching
    (path,) = (tmp_path / "cacheinf_ros" / "merging").iterdir()
    written = path.read_text()
    assert Engine(MIXED, config).program.caching == first
    unusable = KeptFile(path=path, what="", remedy="")
    unusable.write_json(["no such map"])
    with caplog.at_level(logging.WARNING):
        Engine(MIXED, config)
    assert "names maps that the model does not have" in caplog.text
    assert unusable.read_json(list) != ["no such map"] and len(path.read_text()) == len(written)


def test_bounded_mode_is_calibrated_with_the_caches_that_it_has() -> None:
    rng = np.random.default_rng(0)
    frames = [rng.integers(100, 156, (61, 47, 3), dtype=np.uint8) for _ in range(3)]
    engine = Engine(MIXED, EngineConfig(mode=Mode.BOUNDED, cache=Cache.MERGED, max_error=0.1))
    calibration = engine.calibrate(frames)
    kept = {MIXED.graph.input, *engine.program.kept}
    assert set(calibration.base) <= kept
    assert engine.run(frames[0], None).outputs
