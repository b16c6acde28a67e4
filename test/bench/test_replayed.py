# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The comparison of a replay with dense engines: every engine is warm when its first frame is timed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from networks.shared_models import small_scenenet

from cacheinf_ros.bench import replayed, timing
from cacheinf_ros.bench.contenders import Contender
from cacheinf_ros.bench.replayed import NODES, ReplayComparison, compare_replay
from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.engine.dense_backends import run_by_torch
from cacheinf_ros.harness.playback import FIRST_STAMP_NS
from cacheinf_ros.sources import open_source

SOURCE = "scene:fixed?size=96x128&frames=4"
COLD_S = 3600.0


def test_no_engine_is_timed_on_its_first_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """The int8 engine's first frame counted once, in which engines allocate and pack: here it takes an hour."""
    model, waited_s = small_scenenet(), 0.0
    run, calls = run_by_torch(model.module), {True: 0, False: 0}

    def engine(prepared: Any, *, is_int8: bool) -> Any:
        nonlocal waited_s
        waited_s += COLD_S * (calls[is_int8] == 0)
        calls[is_int8] += 1
        return run(prepared)

    engines = {
        Contender.CHANNELS_LAST: lambda prepared: engine(prepared, is_int8=False),
        Contender.ONNXRUNTIME_INT8: lambda prepared: engine(prepared, is_int8=True),
    }
    monkeypatch.setattr(replayed, "dense_engines", lambda *_: engines)
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter_ns=lambda: round(1e9 * waited_s)))
    stamps = [FIRST_STAMP_NS + frame.stamp_ns for frame in open_source(SOURCE)]
    results = [
        SimpleNamespace(
            stamp_ns=stamp, arrived_ns=stamp, error="", boxes=(), mode="exact", compute_ms=5.0,
            stage_ms={"compute": 5.0}, reuse_ratio=0.0, active_share=1.0,
        )
        for stamp in stamps
    ]  # fmt: skip
    played: Any = SimpleNamespace(published=len(stamps), results=results, class_maps=[], links={}, promises={})
    comparison = ReplayComparison(
        config=EngineConfig(mode=Mode.EXACT, threads=1), contenders=tuple(engines), readings=()
    )
    found = compare_replay(model, open_source(SOURCE), played, comparison)
    assert set(found.losses.decisions) >= {"dense", "onnxruntime_int8", NODES, "every 2"}
    assert np.max(found.took_ms["onnxruntime_int8"]) < 1e3 * COLD_S and np.max(found.took_ms["dense"]) < 1e3 * COLD_S
