# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of measuring a program's costs and of finding the stored result again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from networks.shared_models import mixed_model
from oracle import changed

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.engine.backends import NativeBackend, choose_backend
from cacheinf_ros.engine.backends.reference_backend import ReferenceBackend
from cacheinf_ros.engine.cost import CostModel, load_or_measure
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import graph_hash, structure_hash
from cacheinf_ros.graph.ir import Conv

CONFIG = EngineConfig()


def test_measured_once_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = mixed_model()
    backend = choose_backend("cpu", 1)
    program = Program(model.graph, backend)

    def measured(config: EngineConfig = CONFIG) -> CostModel:
        return load_or_measure(lambda: program, model, config, backend)

    first = measured()
    assert {o.output for o in model.graph.operators if isinstance(o, Conv)} <= set(first.curves)
    assert first.dense_ms > 0
    (path,) = (tmp_path / "cacheinf_ros" / "costs").iterdir()
    assert measured() == first
    path.write_text('{"x": {"rows": [1], "alternative": null}}')
    assert set(measured().curves) == set(first.curves), "a broken file is replaced"
    assert measured(EngineConfig(threads=1)), "another number of threads is another file"
    assert len(list(path.parent.iterdir())) == 2


def test_networks_that_differ_in_weights_alone_are_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, backend = mixed_model(), choose_backend("cpu", 1)
    operators = tuple(
        replace(each, weight=each.weight + 1) if isinstance(each, Conv) else each for each in model.graph.operators
    )
    tuned = replace(
        model, graph=replace(model.graph, operators=operators), card=model.card.model_copy(update={"name": "tuned"})
    )
    assert graph_hash(tuned.graph) != graph_hash(model.graph)
    first = load_or_measure(lambda: Program(model.graph, backend), model, CONFIG, backend)

    def must_not() -> Program:
        raise AssertionError("it has been measured")

    assert load_or_measure(must_not, tuned, CONFIG, backend) == first
    other = replace(model, graph=replace(model.graph, outputs=model.graph.outputs[:1]))
    assert structure_hash(other.graph) != structure_hash(model.graph)


def test_what_other_kernels_took_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled kernels may be there at one start and missing at the next; their times then no longer hold."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = mixed_model()
    for backend in (choose_backend("cpu", 1), ReferenceBackend(torch.device("cpu"))):
        program = Program(model.graph, backend)
        found = load_or_measure(lambda program=program: program, model, CONFIG, backend)  # type: ignore[misc]
        assert bool(found.curves) == isinstance(backend, NativeBackend)


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
