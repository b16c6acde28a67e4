# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Feature maps in bfloat16 on the CPU: what is cached equals what is dense to the last bit, whatever changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.random_models import random_model, seeds
from networks.shared_models import mixed_model
from programs import change, changing_frames

from cacheinf_ros.engine import Precision
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.conversions import with_conversions
from cacheinf_ros.engine.half_maps import with_maps_in
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import Graph

BACKEND = choose_backend("cpu", 2, Precision.BFLOAT16)
PLAIN = choose_backend("cpu", 2)
MIXED = mixed_model()
pytestmark = pytest.mark.skipif(BACKEND.floats is torch.float32, reason="the compiled kernels are not built")


def halved(graph: Graph) -> Graph:
    return with_conversions(with_maps_in(graph, torch.bfloat16))


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


@settings(max_examples=25)
@given(seed=seeds, is_merged=st.booleans())
def test_random_networks(seed: int, is_merged: bool) -> None:
    graph = halved(random_model(seed).graph)
    dropped = frozenset(droppable(lay_out(graph))) if is_merged else frozenset()
    assert_cached_is_dense(graph, seed, Caching(dropped=dropped))


@settings(max_examples=15)
@given(seed=seeds, cache_bytes=st.sampled_from([1_000, 4_000, 15_000]))
def test_strip_by_strip(seed: int, cache_bytes: int) -> None:
    graph = halved(random_model(seed).graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BACKEND, "strip_bytes", cache_bytes)
        assert_cached_is_dense(graph, seed, Caching.nothing(lay_out(graph)))


@settings(max_examples=15)
@given(seed=seeds)
def test_they_are_near_float32(seed: int) -> None:
    graph = random_model(seed).graph
    programs = Program(halved(graph), BACKEND), Program(graph, PLAIN)
    _, image, mask, outside = next(iter(changing_frames(programs[0].input.size, np.random.default_rng(seed), 1)))
    outputs = []
    for program in programs:
        change(program, image, mask)
        outputs.append(program.execute(refresh=True, outside=outside))
    for name, reference in outputs[1].items():
        ours = outputs[0][name]
        assert ours.dtype is torch.float32
        error = (ours - reference).square().mean().sqrt() / reference.square().mean().sqrt().clamp(min=1e-3)
        assert error < 0.05, name
