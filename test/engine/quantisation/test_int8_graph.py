# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Graphs in int8: cached execution equals dense execution to the last bit, whatever changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from programs import change, changing_frames
from quantised import random_levels, scales_of

from cacheinf_ros.engine import Precision
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.kernels.int8_kernels import to_levels, to_values
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.quantisation import int8_graph
from cacheinf_ros.graph import Model, ModelCard, Scales, load_model
from cacheinf_ros.graph.ir import Conv, Convert, Graph, Int8Conv

BACKEND = choose_backend("cpu", 2, Precision.INT8)
SMALL = Path(__file__).parents[2] / "networks" / "small.py"
pytestmark = pytest.mark.skipif(not BACKEND.takes_levels, reason="the compiled kernels are not built")


def assert_cached_is_dense(graph: Graph, seed: int, caching: Caching | None = None) -> None:
    cached = Program(graph, BACKEND, caching or Caching(), debug_memory=True)
    dense = Program(graph, BACKEND)
    size = dense.input.size
    everything = np.ones(size, np.uint8)
    held = torch.zeros(*size, 3)
    for frame, image, mask, outside in changing_frames(size, np.random.default_rng(seed), 5):
        held = torch.where(torch.from_numpy(mask)[:, :, None].bool(), image, held)
        change(cached, image, mask)
        change(dense, held, everything)
        ours = cached.execute(outside=outside, refresh=frame == 0)
        for name, value in dense.execute(refresh=True).items():
            assert torch.equal(ours[name], value), f"frame {frame}: {name}"


@settings(max_examples=18)
@given(seed=st.integers(0, 10**6), is_merged=st.booleans())
def test_random_networks(seed: int, is_merged: bool) -> None:
    graph = random_levels(seed)
    dropped = frozenset(droppable(lay_out(graph))) if is_merged else frozenset()
    assert_cached_is_dense(graph, seed, Caching(dropped=dropped))


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), cache_bytes=st.sampled_from([1_000, 4_000, 15_000]))
def test_strip_by_strip(seed: int, cache_bytes: int) -> None:
    graph = random_levels(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BACKEND, "strip_bytes", cache_bytes)
        assert_cached_is_dense(graph, seed, Caching.nothing(lay_out(graph)))


def test_all_operators_of_a_mixed_network() -> None:
    model = load_model(f"{SMALL}:mixed", input_size=(61, 47))
    graph = int8_graph(model.graph, scales_of(model))
    convolutions = [o for o in graph.operators if isinstance(o, Conv)]
    assert all(isinstance(o, Int8Conv) for o in convolutions if graph.tensors[o.output].pixels > 1)
    assert_cached_is_dense(graph, 0)


def test_what_stays_in_floats_is_converted_at_its_border() -> None:
    model = load_model(f"{SMALL}:mixed", input_size=(61, 47))
    scales = scales_of(model)
    whole = int8_graph(model.graph, scales)
    name = next(o.output for o in whole.operators if isinstance(o, Int8Conv))
    graph = int8_graph(model.graph, Scales(levels=scales.levels, floats=frozenset({name})))
    (operator,) = (o for o in graph.operators if o.output == name)
    assert isinstance(operator, Conv) and not isinstance(operator, Int8Conv)
    assert sum(isinstance(o, Convert) for o in graph.operators) > sum(isinstance(o, Convert) for o in whole.operators)
    assert_cached_is_dense(graph, 1)


def test_maps_take_a_quarter() -> None:
    model = load_model("scenenet", input_size=(96, 128))
    ours, theirs = Program(int8_graph(model.graph, scales_of(model)), BACKEND), Program(model.graph, BACKEND)
    assert ours.maps.cache_bytes < 0.4 * theirs.maps.cache_bytes  # outputs are floats


def test_what_rounds_to_the_same_levels_is_unchanged() -> None:
    """After a change by a third of a level everywhere, nothing behind the first convolution is computed."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
    model = Model(module=module, graph=graph_of(module, (20, 30)), card=ModelCard(name="two", input_size=(20, 30)))
    program = Program(int8_graph(model.graph, scales_of(model)), BACKEND)
    first = program.layout.operators[0].output
    everything, levels = np.ones((20, 30), np.uint8), program.input.levels
    assert levels is not None
    image = to_values(to_levels(torch.rand(20, 30, 3), levels), levels)
    change(program, image, everything)
    program.execute(refresh=True)
    change(program, image + 0.3 * levels.scale, everything)
    before = program.maps[first].pixels.clone()
    program.execute()
    assert torch.equal(program.maps[first].pixels, before)
    assert program.plan.changed[first].count == 0
