# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Feature maps in bfloat16 on the CPU: cached execution equals dense execution bit for bit, whatever changes."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from networks.random_graphs import RandomNetwork
from networks.random_models import random_model, seeds
from pairs import Pair, random_partition
from programs import change, changing_frames
from rounding import Rounding

from cacheinf_ros.engine import Precision
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.float_conversions import with_conversions
from cacheinf_ros.engine.half_maps import with_maps_in
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.lifetimes import map_bytes
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.stem import stem_of
from cacheinf_ros.graph import Graph, load_model

BACKEND = choose_backend("cpu", 2, Precision.BFLOAT16)
PLAIN = choose_backend("cpu", 2)
MODEL = load_model("scenenet", input_size=(96, 128))
pytestmark = pytest.mark.skipif(BACKEND.floats is torch.float32, reason="the compiled kernels are not built")


def halved(graph: Graph) -> Graph:
    stem = stem_of(graph)
    return with_conversions(with_maps_in(graph, torch.bfloat16, stem), stem)


def jumps(graph: Graph) -> bool:
    """Tell whether an operator is discontinuous (hard shrinkage, threshold): rounding may change its result by much."""
    return any(str(getattr(each, "call", "")).startswith(("aten.where", "aten.threshold")) for each in graph.operators)


def assert_cached_is_dense(graph: Graph, seed: int, caching: Caching) -> None:
    cached = Program(graph, BACKEND, caching, debug_memory=True)
    dense = Program(graph, BACKEND)
    size = dense.input.size
    held = torch.zeros(*size, 3)
    for frame, image, mask, outside in changing_frames(size, np.random.default_rng(seed), 4):
        held = torch.where(torch.from_numpy(mask)[:, :, None].bool(), image, held)
        change(cached, image, mask)
        change(dense, held, np.ones(size, np.uint8))
        ours = cached.execute(outside=outside, refresh=frame == 0)
        for name, value in dense.execute(refresh=True).items():
            assert torch.equal(torch.as_tensor(ours[name]), torch.as_tensor(value)), f"frame {frame}: {name}"


@settings(max_examples=8)
@given(seed=seeds, is_merged=st.booleans())
def test_random_networks(seed: int, is_merged: bool) -> None:
    graph = halved(random_model(seed).graph)
    dropped = frozenset(droppable(lay_out(graph))) if is_merged else frozenset()
    assert_cached_is_dense(graph, seed, Caching(dropped=dropped))


@settings(max_examples=6)
@given(seed=seeds, cache_bytes=st.sampled_from([1_000, 4_000, 15_000]))
def test_strip_by_strip(seed: int, cache_bytes: int) -> None:
    graph = halved(random_model(seed).graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BACKEND, "strip_bytes", cache_bytes)
        assert_cached_is_dense(graph, seed, Caching.nothing(lay_out(graph)))


@settings(max_examples=6)
@given(seed=seeds)
@example(seed=943670)  # normalises what hardly differs
def test_they_are_near_float32(seed: int) -> None:
    """Errors are below 0.05, or about those of torch with rounded values, as normalising may enlarge them."""
    model = random_model(seed)
    assume(not jumps(model.graph))
    programs = Program(halved(model.graph), BACKEND), Program(model.graph, PLAIN)
    _, image, mask, outside = next(iter(changing_frames(programs[0].input.size, np.random.default_rng(seed), 1)))
    outputs = []
    for program in programs:
        change(program, image, mask)
        outputs.append(program.execute(refresh=True, outside=outside))
    for name, reference in outputs[1].items():
        ours = outputs[0][name]
        assert ours.dtype is torch.float32
        error = relative_error(ours, reference)
        if not error < 0.05:  # or no number
            torchs = rounding_errors(model.network, image)[name]
            assume(isfinite(torchs))
            assert error < 2 * torchs, name


@torch.no_grad()
def rounding_errors(network: RandomNetwork, image: torch.Tensor) -> dict[str, float]:
    """Return how far torch's outputs of an image, [height, width, 3], move when its operators' results are rounded."""
    batch = image.permute(2, 0, 1)[None]
    exact = network(batch)
    with Rounding():
        rounded = network(batch)
    return {name: relative_error(rounded[name], value) for name, value in exact.items()}


def relative_error(ours: torch.Tensor, reference: torch.Tensor) -> float:
    return float((ours - reference).square().mean().sqrt() / reference.square().mean().sqrt().clamp(min=1e-3))


@settings(max_examples=5)
@given(seed=seeds)
def test_rows_change_hands(seed: int) -> None:
    """Two machines share the rows of each map, and transfers are exact."""
    rng, graph = np.random.default_rng(seed), halved(random_model(seed).graph)
    pair, dense = Pair(graph, lambda: choose_backend("cpu", 1, Precision.BFLOAT16)), Program(graph, BACKEND)
    assert pair.robot.replicas is not None
    held = torch.zeros(*dense.input.size, 3)
    for frame, image, mask, outside in changing_frames(dense.input.size, rng, 4):
        held = torch.where(torch.from_numpy(mask)[:, :, None].bool(), image, held)
        partition = random_partition(pair.robot.replicas.space, rng)
        found = pair.run(image, mask, partition, refresh=frame == 0, outside=outside)
        change(dense, held, np.ones(dense.input.size, np.uint8))
        for ours, expected in zip(found, dense.execute(refresh=True).values(), strict=True):
            assert torch.equal(ours, torch.as_tensor(expected))


def test_a_frame_of_the_camera_is_written_rounded() -> None:
    preprocessor = Preprocessor(MODEL.card)
    program = Program(with_conversions(with_maps_in(MODEL.graph, torch.bfloat16)), BACKEND)  # without a stem
    frame = np.random.default_rng(0).integers(0, 256, (*MODEL.input_size, 3), np.uint8)
    BACKEND.input(preprocessor, program.input).write_all(frame, program.changed_input)
    expected = torch.from_numpy(preprocessor.input(frame)).to(torch.bfloat16)
    assert torch.equal(program.input.image, expected)


def test_they_take_half_of_the_memory() -> None:
    """All maps but those that stay in float32 take half of the memory."""
    graph, all_halved = halved(MODEL.graph), with_conversions(with_maps_in(MODEL.graph, torch.bfloat16))
    layout, wide = lay_out(graph), lay_out(MODEL.graph)
    in_float32 = {layout.root(tensor) for _, tensor in graph.outputs} | stem_of(MODEL.graph).maps
    for name in wide.maps:
        assert map_bytes(layout, name) * (1 if layout.root(name) in in_float32 else 2) == map_bytes(wide, name)
    graphs = (all_halved, BACKEND), (graph, BACKEND), (MODEL.graph, PLAIN)
    least, kept, in_floats = (Program(of, backend).maps.cache_bytes for of, backend in graphs)
    stem = sum(map_bytes(wide, name) for name in stem_of(MODEL.graph).maps if name in wide.maps)
    converted = sum(map_bytes(layout, name) for name in layout.maps if name not in MODEL.graph.tensors)
    assert least < 0.6 * in_floats
    assert kept <= least + stem / 2 + converted


@pytest.mark.parametrize("criterion", list(Criterion))
def test_what_did_not_change_is_held_back(criterion: Criterion) -> None:
    """This also holds where the picture moves: what enters counts as changed, whatever values were there."""
    graph = halved(MODEL.graph)
    programs = [Program(graph, BACKEND) for _ in range(2)]
    programs[0].set_thresholds(dict.fromkeys(programs[0].kept, DeltaThreshold(threshold=0.0, criterion=criterion)))
    image, everything = torch.rand(*MODEL.input_size, 3), np.ones(MODEL.input_size, np.uint8)
    for frame, border in enumerate((Border.NONE, Border.NONE, Border.ALL)):
        for program in programs:
            if border:
                program.shift(32, 0)
            change(program, image, everything)
            program.execute(refresh=frame == 0, outside=border)
        for name, value in programs[0].outputs.items():
            assert torch.equal(value, programs[1].outputs[name])
        assert (frame != 1) or not any(programs[0].plan.changed[name].count for name in programs[0].kept)
