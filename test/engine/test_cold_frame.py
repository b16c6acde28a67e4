# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The first frame of an engine takes up to ten times as long as others, and its time must decide nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.engine import engine as engines
from cacheinf_ros.graph import load_model

SIZE = (48, 64)
COLD_MS, DENSE_MS, CACHED_MS = 1000.0, 10.0, 50.0
JUDGED_AFTER = 5  # frames


class Clock:
    """A clock by which the kernels of a frame take as long as a test says."""

    def __init__(self) -> None:
        self.takes_ms = 0.0
        self._now_ns, self._calls = 0, 0

    def perf_counter_ns(self) -> int:
        self._calls += 1
        if self._calls % 3 == 0:  # asked at the start of a frame, before its kernels and behind them
            self._now_ns += round(1e6 * self.takes_ms)
        return self._now_ns


def test_it_is_not_taken_for_the_time_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that takes five times as long is given up, although it was faster than the cold frame."""
    engine, clock = Engine(load_model("networks.tiny:tiny"), EngineConfig(mode=Mode.EXACT, threads=1)), Clock()
    monkeypatch.setattr(engines, "time", SimpleNamespace(perf_counter_ns=clock.perf_counter_ns))
    rng = np.random.default_rng(0)
    blocks = np.ones((6, 8), np.bool_)
    blocks[:3] = False
    half = CacheMap.of_blocks(blocks, SIZE, 8, Motion.none())
    frame = rng.integers(0, 256, (*SIZE, 3), np.uint8)

    def refreshed(cache_map: CacheMap | None, takes_ms: float) -> bool:
        frame[:24] = rng.integers(0, 256, (24, 64, 3), np.uint8)
        clock.takes_ms = takes_ms
        result = engine.run(frame.copy(), cache_map)
        assert result.stage_ms["compute"] == takes_ms
        return result.refreshed

    assert refreshed(None, COLD_MS) and refreshed(None, DENSE_MS)
    assert [refreshed(half, CACHED_MS) for _ in range(JUDGED_AFTER)] == [False] * JUDGED_AFTER
    assert refreshed(half, DENSE_MS)
