# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Helpers that run compiled programs without an engine, and that show what their plans say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.backends import Backend, choose_backend
from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.kernels.int8_kernels import to_levels
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.lifetimes import lifetimes
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.memory import TensorRecord


def changing_frames(
    size: tuple[int, int], rng: np.random.Generator, frames: int
) -> Iterator[tuple[int, torch.Tensor, NDArray[np.uint8], Border]]:
    """Yield frames: number, image, mask of what changes, and the sides beside which the padding changes.

    Images are float32 [height, width, 3]. The first frame changes everywhere, others more or less, and the last one
    together with its padding.
    """
    image = torch.from_numpy(rng.random((*size, 3), np.float32))
    for frame in range(frames):
        share = 1.0 if frame == 0 else rng.choice([0.0, 0.002, 0.05, 0.5])
        mask = (rng.random(size) < share).astype(np.uint8)
        yield frame, image, mask, Border.ALL if frame == frames - 1 else Border.NONE
        image = image + torch.from_numpy(rng.normal(0, 0.1, (*size, 3)).astype(np.float32))


def change(program: Program, image: torch.Tensor, mask: NDArray[np.uint8]) -> None:
    """Write the pixels of an image, float32 [height, width, 3], where a mask is set, and mark them as changed."""
    listed, levels = torch.from_numpy(np.flatnonzero(mask)), program.input.levels
    values, pixels = image.reshape(-1, 3)[listed], program.input.pixels
    pixels[listed] = values.to(pixels) if levels is None else to_levels(values, levels)
    np.copyto(program.changed_input.mask, mask)
    program.changed_input.use_mask()


def assert_same_outputs(
    graph: Graph, programs: list[Program], seed: int, frames: int = 4, rounding: float = 0.0
) -> None:
    """Check that two programs agree on frames that change more or less, bit for bit unless ``rounding`` is given."""
    rng = np.random.default_rng(seed)
    size = graph.tensors[graph.input].size
    for frame, image, mask, outside in changing_frames(size, rng, frames):
        found = []
        for program in programs:
            change(program, image, mask)
            outputs = program.execute(refresh=frame == 0, outside=outside)
            found.append([torch.as_tensor(value).clone() for value in outputs.values()])
        for ours, theirs in zip(*found, strict=True):
            assert not ours.isnan().any(), f"frame {frame} reads a map that is not alive"
            assert torch.allclose(ours, theirs, rtol=rounding, atol=rounding), (
                f"frame {frame}: {(ours - theirs).abs().max()}"
            )


def caching_and_not(graph: Graph, caching: Caching, kernels: Backend | None = None) -> list[Program]:
    """Return two programs of a graph: one that keeps some of its maps, and one that keeps them all."""
    kernels = kernels or choose_backend("cpu", 1)
    return [Program(graph, kernels, caching, debug_memory=True), Program(graph, kernels)]


def dense_records(graph: Graph, alignment: int = 64) -> list[TensorRecord]:
    """Return the maps of execution without a cache, and when they are alive."""
    layout = lay_out(graph)
    caching = Caching.nothing(layout)
    return lifetimes(Planner(layout).plan(caching).steps, layout, caching, alignment)
