# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Cameras computed together get, bit for bit, what each gets alone, and other cameras do not change."""

from __future__ import annotations

import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from networks.random_models import random_model, seeds
from programs import change
from triton_devices import DEVICE, TRITON
from typer.testing import CliRunner

from cacheinf_ros.cli.all_commands import app
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.engine.caching import EVERYTHING, Caching, droppable
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.gpu.camera_batch import CameraBatch, Turn
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.program import Program
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.pipeline.polling import wait_until

TINY = load_model("networks.tiny:tiny")


def pair_for_each(graph: Graph, cameras: int, caching: Caching) -> tuple[CameraBatch, list[tuple[Program, Program]]]:
    """Build a batch, and for each camera a program in the batch and one of its own."""
    batch = CameraBatch(graph, TRITON, cameras)
    pairs = []
    for _ in range(cameras):
        seat = batch.seat()
        assert seat is not None
        together = Program(graph, TRITON, caching, debug_memory=True, seat=seat)
        pairs.append((together, Program(graph, TRITON, caching, debug_memory=True)))
    return batch, pairs


def batches_of(model: Model) -> list[CameraBatch]:
    return [shared.value for _, shared in model.shared.held() if isinstance(shared.value, CameraBatch)]


def counts(program: Program) -> list[int]:
    return [each.count for each in program.plan.changed.values()]


def kept(program: Program) -> list[torch.Tensor]:
    return [buffer.pixels.clone() for buffer in program.maps.kept]


def run_frames(batch: CameraBatch, pairs: list[tuple[Program, Program]], rng: np.random.Generator, frames: int) -> None:
    """Run passes with any subset of the cameras, and compare outputs, maps and active sets with each camera alone."""
    size = pairs[0][0].input.size
    images = [torch.from_numpy(rng.random((*size, 3), np.float32)) for _ in pairs]
    new = set(range(len(pairs)))
    for _ in range(frames):
        present = {camera for camera in range(len(pairs)) if rng.random() < 0.6}
        before = {camera: kept(pairs[camera][0]) for camera in range(len(pairs)) if camera not in present}
        outside = Border.ALL if rng.random() < 0.2 else Border.NONE
        turns = []
        for camera in present:
            share = 1.0 if camera in new else rng.choice([0.0, 0.002, 0.05, 0.5])
            images[camera] = images[camera] + torch.from_numpy(rng.normal(0, 0.1, (*size, 3)).astype(np.float32))
            mask = (rng.random(size) < share).astype(np.uint8)
            for program in pairs[camera]:
                change(program, images[camera].to(DEVICE), mask)
            turns.append(Turn(camera, outside=outside, refresh=camera in new))
        batch.run(turns)
        for camera, turn in zip(present, turns, strict=True):
            assert turn.error is None
            together, alone = pairs[camera]
            expected = alone.execute(outside=outside, refresh=camera in new)
            for (name, value), other in zip(together.outputs.items(), expected.values(), strict=True):
                assert not torch.as_tensor(value).isnan().any(), f"{name} reads a map that is not alive"
                assert torch.equal(torch.as_tensor(value), torch.as_tensor(other)), name
            assert counts(together) == counts(alone)
            assert all(map(torch.equal, kept(together), kept(alone)))
            assert together.active_share == alone.active_share
        for camera, maps in before.items():
            assert all(map(torch.equal, maps, kept(pairs[camera][0]))), f"camera {camera} had no frame"
        new -= present


@settings(max_examples=1, phases=(Phase.explicit, Phase.generate))  # shrinking takes minutes, and tells nothing new
@given(seed=seeds, share=st.sampled_from([0.0, 0.5, 1.0]), cameras=st.integers(1, 4))
def test_random_networks(seed: int, share: float, cameras: int) -> None:
    """Networks have any operators at odd sizes; any maps are dropped, and memory that is not alive is poisoned."""
    graph = random_model(seed).graph
    rng = np.random.default_rng(seed)
    dropped = frozenset(name for name in droppable(lay_out(graph)) if rng.random() < share)
    batch, pairs = pair_for_each(graph, cameras, Caching(dropped=dropped))
    run_frames(batch, pairs, rng, 3)


@settings(max_examples=2, phases=(Phase.explicit, Phase.generate))
@given(criterion=st.sampled_from(Criterion), seed=st.integers(0, 9999), cameras=st.integers(2, 3))
def test_each_has_its_own_thresholds(criterion: Criterion, seed: int, cameras: int) -> None:
    """Thresholds change between frames, and one camera holds nothing back at first."""
    rng = np.random.default_rng(seed)
    batch, pairs = pair_for_each(TINY.graph, cameras, EVERYTHING)
    names = [name for name in pairs[0][0].kept if rng.random() < 0.5]
    for first in (1, 0):
        for pair in pairs[first:]:
            weights = {name: rng.random(TINY.graph.tensors[name].channels, np.float32) for name in names}
            thresholds = {
                name: DeltaThreshold(threshold=rng.random(), criterion=criterion, weight=weights[name])
                for name in names
            }
            for program in pair:
                program.set_thresholds(thresholds)
        run_frames(batch, pairs, rng, 2)


def test_frames_that_wait_are_computed_in_one_pass() -> None:
    """Each frame has a thread of its own; a frame that comes alone is computed alone."""
    batch, pairs = pair_for_each(TINY.graph, 3, EVERYTHING)
    programs = [program for program, _ in pairs]
    for program in programs:
        program.changed_input.fill()
    programs[0].execute(refresh=True)
    assert batch.passes == 1
    with ThreadPoolExecutor(3) as threads:
        with batch.running:  # as while another pass runs
            frames = [threads.submit(program.execute, refresh=True) for program in programs]
            wait_until(lambda: batch.waiting == 3, 10.0)
        for frame in frames:
            frame.result()
    assert batch.passes == 2


def test_engines_of_a_model_share_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines share a batch as far as it has room; a new engine takes the seat of one that has gone."""
    chooses = importlib.import_module("cacheinf_ros.engine.quantisation.executed_model")
    monkeypatch.setattr(chooses, "choose_backend", lambda *_: TRITON)
    config = EngineConfig(dense_fallback=False)
    engines = [Engine(TINY, config, cameras=2) for _ in range(3)]
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (*TINY.input_size, 3), np.uint8)
    outputs = [engine.run(image, None).outputs for engine in engines]
    assert sorted(batch.passes for batch in batches_of(TINY)) == [1, 2]
    del engines[0]
    engines.append(Engine(TINY, config, cameras=2))
    outputs.append(engines[-1].run(image, None).outputs)
    assert sorted(batch.passes for batch in batches_of(TINY)) == [1, 3]
    for other in outputs[1:]:
        assert all(np.array_equal(value, other[name]) for name, value in outputs[0].items())


def test_a_benchmark_of_cameras(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Without a GPU each camera is computed by itself, and the log says so."""
    words = ["bench", "engine", "--model", "networks.tiny:tiny", "--cameras", "2", "--frames", "1"]
    out = tmp_path / "out.json"
    result = CliRunner().invoke(app, [*words, "--source", "scene:fixed?size=48x64", "--json", str(out)])
    assert result.exit_code == 0 and "2 cameras" in result.output
    report = json.loads(out.read_text())
    assert report["frames"] == 1 and report["largest_difference"] == 0.0
    assert "gpu.cameras 2 needs device cuda" in caplog.text


def test_it_is_not_for_mode_bounded() -> None:
    refused = CliRunner().invoke(app, ["bench", "engine", "--cameras", "2", "--mode", "bounded"])
    assert isinstance(refused.exception, ConfigError)
