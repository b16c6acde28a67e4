# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames on the Triton backend equal plain torch, whatever changes, is held back or is not kept."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from lowered import graph_of
from networks.random_models import random_model, seeds
from networks.shared_models import mixed_model
from programs import assert_same_outputs, change, changing_frames
from triton_devices import DEVICE, DEVICE_NAME, HALVES, TRITON

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.engine.backends import Backend, ReferenceBackend, choose_backend
from cacheinf_ros.engine.backends.triton_backend import TritonBackend
from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.delta_threshold import NOTHING_CHANGED, Criterion, DeltaThreshold
from cacheinf_ros.engine.half_maps import with_maps_in
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.program import Program
from cacheinf_ros.mode import Mode

REFERENCE = ReferenceBackend(DEVICE)
MIXED = mixed_model()


@settings(max_examples=4, phases=(Phase.explicit, Phase.generate))  # shrinking takes minutes, and tells nothing new
@given(seed=seeds, share=st.sampled_from([0.0, 0.5, 1.0]))
def test_random_networks(seed: int, share: float) -> None:
    """Networks have all operators in any order at odd sizes; any maps are dropped, and dead memory is poisoned.

    At the jump of an activation torch's rounding may fall on the other side: such networks are compared with the same
    kernels that keep all maps instead.
    """
    model = random_model(seed)
    graph = model.graph
    jumps = any(isinstance(module, (torch.nn.Hardshrink, torch.nn.Threshold)) for module in model.network.modules())
    rng = np.random.default_rng(seed)
    dropped = frozenset(name for name in droppable(lay_out(graph)) if rng.random() < share)
    programs = [
        Program(graph, TRITON, Caching(dropped=dropped), debug_memory=True),
        Program(graph, TRITON if jumps else REFERENCE),
    ]
    assert_same_outputs(graph, programs, seed, rounding=1e-4)


class _Sparse(torch.nn.Module):
    """A network in which half of the pixels read nothing but padding, and so equal the bias."""

    def __init__(self) -> None:
        super().__init__()
        self.grow = torch.nn.ConvTranspose2d(3, 4, 1, stride=2)
        self.next = torch.nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.next(self.grow(x))


@pytest.mark.parametrize("backend", [TRITON, REFERENCE], ids=["triton", "reference"])
def test_what_reads_only_padding_is_computed_too(backend: Backend) -> None:
    torch.manual_seed(0)
    module = _Sparse().eval()
    program = Program(graph_of(module, (9, 11)), backend)
    image = torch.rand((9, 11, 3), device=DEVICE)
    change(program, image, np.ones((9, 11), np.uint8))
    (output,) = program.execute(refresh=True).values()
    with torch.inference_mode():
        expected = module(image.cpu().permute(2, 0, 1)[None])
    torch.testing.assert_close(output.cpu(), expected, atol=1e-5, rtol=1e-5)


@settings(max_examples=5)
@given(criterion=st.sampled_from(Criterion), weighted=st.booleans(), seed=st.integers(0, 9999))
def test_the_same_changes_are_held_back(criterion: Criterion, weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    programs = [Program(MIXED.graph, kernels) for kernels in (TRITON, REFERENCE)]
    thresholds = {
        name: DeltaThreshold(
            threshold=0.3 * (1 + 1e-4),  # off the values that occur, so that rounding cannot decide
            criterion=criterion,
            weight=rng.random(MIXED.graph.tensors[name].channels, np.float32) if weighted else None,
        )
        for name in programs[0].kept
        if rng.random() < 0.5
    }
    for program in programs:
        program.set_thresholds(thresholds)
    for frame, image, mask, outside in changing_frames((61, 47), rng, 4):
        outputs = []
        for program in programs:
            change(program, image.to(DEVICE), mask)
            outputs.append(program.execute(refresh=frame == 0, outside=outside))
        for ours, reference in zip(outputs[0].values(), outputs[1].values(), strict=True):
            assert torch.allclose(ours, reference, atol=1e-3)
        assert programs[0].active_share == pytest.approx(programs[1].active_share, abs=0.01)


@pytest.mark.parametrize("backend", [TRITON, HALVES[1]], ids=lambda backend: str(backend.floats))
def test_the_same_values_again_are_no_change(backend: TritonBackend) -> None:
    """Values are rounded before they are compared with kept values, which were rounded too."""
    program = Program(with_maps_in(MIXED.graph, backend.floats), backend)
    program.set_thresholds(dict.fromkeys(program.kept, NOTHING_CHANGED))
    image, everything = torch.rand((61, 47, 3), device=DEVICE), np.ones((61, 47), np.uint8)
    change(program, image, everything)
    program.execute(refresh=True)
    change(program, image, everything)
    program.execute()
    assert not any(program.plan.changed[name].count for name in program.kept)


@pytest.mark.parametrize("mode", ["exact", "bounded"])
def test_an_engine_follows_a_scene(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole path from frame to outputs is tested, with cache maps."""
    chooses = importlib.import_module("cacheinf_ros.engine.quantisation.executed_model")
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 255, (61, 47, 3), np.uint8)
    engines = []
    for backend in (TRITON, choose_backend("cpu", 1)):  # both compare and paint frames in the same way
        monkeypatch.setattr(chooses, "choose_backend", lambda *_, backend=backend: backend)
        engines.append(Engine(MIXED, EngineConfig(mode=Mode(mode), dense_fallback=False)))
    assert engines[0].kernel_name == TRITON.name
    for number in range(4):
        reusable = None
        if number:
            blocks = np.ones((4, 3), np.bool_)
            blocks[number - 1, 1] = False
            frame = frame.copy()
            frame[16 * number - 16 : 16 * number - 8, 20:28] = rng.integers(0, 255, (8, 8, 3), np.uint8)
            motion = Motion.translation(3.0, 0.0) if number == 3 else Motion.none()  # followed in bounded mode
            reusable = CacheMap(image_size=(61, 47), block_size=16, reusable=blocks, motion=motion)
        results = [engine.run(frame, reusable) for engine in engines]
        for name, value in results[0].outputs.items():
            np.testing.assert_allclose(value, results[1].outputs[name], atol=1e-4)
        assert results[0].active_share == pytest.approx(results[1].active_share)
        assert (results[0].active_share < 1) == (number in (1, 2))  # the third moves by less than a shift, and restarts


@pytest.mark.skipif(DEVICE_NAME == "cpu", reason="needs a GPU: CACHEINF_TEST_DEVICE=cuda")
def test_a_frame_is_replayed_as_one_graph(caplog: pytest.LogCaptureFixture) -> None:
    programs = [Program(MIXED.graph, TRITON), Program(MIXED.graph, REFERENCE)]
    assert_same_outputs(MIXED.graph, programs, 0, frames=10, rounding=1e-4)
    assert "CUDA graph" not in caplog.text
