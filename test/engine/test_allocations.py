# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""In a steady state, frames allocate no buffers in the engine."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from networks.shared_models import mixed_model

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Cache, Engine, EngineConfig, Mode

FRAMES = 1500


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from Linux's /proc")
@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.BOUNDED])
def test_memory_does_not_grow(mode: Mode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("cacheinf_ros.engine.rematerialisation.map_choice._SEARCH_S", 0.5)
    model = mixed_model()
    engine = Engine(model, EngineConfig(mode=mode, cache=Cache.MERGED, dense_fallback=False, audit_every=0))
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4, 61, 47, 3), dtype=np.uint8)
    if mode is Mode.BOUNDED:
        engine.calibrate(list(images))
    reusable = rng.random((7, 5)) < 0.8
    cache_map = CacheMap.of_blocks(reusable, (61, 47), 10, Motion.none())

    def run(frames: int) -> None:
        for frame in range(frames):
            engine.run(images[frame % 4], cache_map)

    run(300)
    pointers = [buffer.pixels.data_ptr() for buffer in engine.program.maps.values()]
    before = resident_bytes()
    run(FRAMES)
    assert resident_bytes() < 1.01 * before
    assert [buffer.pixels.data_ptr() for buffer in engine.program.maps.values()] == pointers
    tracemalloc.start()
    run(1)
    before_frames, _ = tracemalloc.get_traced_memory()
    run(50)
    after_frames, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after_frames - before_frames < 10_000, "Python's memory, numpy's included"
