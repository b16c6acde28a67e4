# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Two machines that share rows of int8 levels agree bit for bit with one, whoever computes which rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from numpy.typing import NDArray
from pairs import Pair, native, random_partition
from programs import change
from quantised import random_levels
from random_graphs import random_network

from cacheinf_ros.engine.backends import Backend, choose_backend
from cacheinf_ros.engine.caching import EVERYTHING, Caching, droppable
from cacheinf_ros.engine.delta_threshold import NOTHING_CHANGED
from cacheinf_ros.engine.engine_config import Precision
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.program import Program

FRAMES = 8
needs_kernels = pytest.mark.skipif(
    not choose_backend("cpu", 1, Precision.INT8).takes_levels, reason="the compiled kernels are not built"
)


def on_levels() -> Backend:
    return choose_backend("cpu", 1, Precision.INT8)


def flickering(
    size: tuple[int, int], rng: np.random.Generator
) -> Iterator[tuple[torch.Tensor, NDArray[np.uint8], Border]]:
    """Yield pictures, float32 [height, width, 3], masks of what changes, and sides beside which the padding changes.

    Blocks go back and forth between two pictures, so a picture may return to what a stale copy still holds.
    """
    pictures = [torch.from_numpy(rng.random((*size, 3), np.float32)) for _ in range(2)]
    held = pictures[0]
    mask = np.ones(size, np.uint8)
    for frame in range(FRAMES):
        yield held, mask, Border.ALL if frame and rng.random() < 0.1 else Border.NONE
        blocks = rng.random((-(-size[0] // 5), -(-size[1] // 5))) < rng.choice([0.0, 0.1, 0.5])
        mask = np.kron(blocks, np.ones((5, 5)))[: size[0], : size[1]].astype(np.uint8)
        held = torch.where(torch.from_numpy(mask)[:, :, None].bool(), pictures[int(rng.integers(2))], held)


def run_both(pair: Pair, dense: Program, seed: int) -> Iterator[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    """Yield the outputs of the pair and of dense execution, frame by frame, each with another random partition."""
    rng = np.random.default_rng(seed)
    assert pair.robot.replicas is not None
    everything = np.ones(dense.input.size, np.uint8)
    for frame, (image, mask, outside) in enumerate(flickering(dense.input.size, rng)):
        partition = random_partition(pair.robot.replicas.space, rng)
        found = pair.run(image, mask, partition, refresh=frame == 0, outside=outside)
        change(dense, image, everything)
        yield found, [torch.as_tensor(value) for value in dense.execute(refresh=True).values()]


@needs_kernels
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), is_merged=st.booleans())
def test_rows_change_hands(seed: int, is_merged: bool) -> None:
    graph = random_levels(seed)
    caching = Caching(dropped=frozenset(droppable(lay_out(graph)))) if is_merged else EVERYTHING
    for found, expected in run_both(Pair(graph, on_levels, caching), Program(graph, on_levels()), seed):
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.equal(ours, theirs)


@settings(max_examples=3)
@given(seed=st.integers(0, 10**6))
def test_floats_that_hold_back_what_did_not_change(seed: int) -> None:
    """Thresholds hold changes back as in bounded mode, but here they add no error of their own."""
    module = random_network(seed)
    graph = graph_of(module, module.input_size)
    pair = Pair(graph, native)
    for program in (pair.robot, pair.server):
        program.set_thresholds(dict.fromkeys(program.kept, NOTHING_CHANGED))
    for found, expected in run_both(pair, Program(graph, native()), seed):
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)
