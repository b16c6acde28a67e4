# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measuring a program, and finding the result again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from networks.shared_models import mixed_model
from oracle import changed

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.cost import load_or_measure
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph.ir import Conv


def test_measured_once_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = mixed_model()
    program = Program(model.graph, choose_backend("cpu", 1))
    first = load_or_measure(lambda: program, model, EngineConfig())
    assert {o.output for o in model.graph.operators if isinstance(o, Conv)} <= set(first.curves)
    assert first.dense_ms > 0
    (path,) = (tmp_path / "cacheinf_ros" / "costs").iterdir()
    assert load_or_measure(lambda: program, model, EngineConfig()) == first
    path.write_text('{"x": {"rows": [1], "alternative": null}}')
    assert set(load_or_measure(lambda: program, model, EngineConfig()).curves) == set(first.curves), (
        "a broken file is replaced"
    )
    assert load_or_measure(lambda: program, model, EngineConfig(threads=1)), "another number of threads is another file"
    assert len(list(path.parent.iterdir())) == 2


def test_exact_results_have_the_bits_of_dense_ones_where_that_is_asked_for() -> None:
    config = EngineConfig(threads=1, same_bits=True)
    engine, dense = (Engine(mixed_model(), config.changed(mode=mode)) for mode in (Mode.EXACT, Mode.DENSE))
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (*engine.model.input_size, 3), np.uint8)
    cache_map: CacheMap | None = None
    for _ in range(4):
        outputs, right = engine.run(image, cache_map).outputs, dense.run(image, None).outputs
        assert all(outputs[name].tobytes() == right[name].tobytes() for name in right)
        image, cache_map = changed(image, 8, 0.1, rng)
