# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Modules lowered to graphs, and the check that both compute the same."""

from __future__ import annotations

import copy
import logging
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from cacheinf_ros.graph.fuse import fuse
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.graph.lower import lower


def lowered(module: nn.Module, size: tuple[int, int]) -> Graph:
    """Return the module's graph before operators are fused, for images of (height, width)."""
    logging.getLogger("torch.export").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, (torch.zeros(1, 3, *size),))
        return lower(program.run_decompositions({}))


def graph_of(module: nn.Module, size: tuple[int, int]) -> Graph:
    """Return the module's graph, for images of (height, width)."""
    return fuse(lowered(module, size))


def values(result: Any) -> list[Tensor]:
    """Return the tensors in whatever a network returns."""
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, (tuple, list)) else [result]


@torch.inference_mode()
def assert_same_function(graph: Graph, module: nn.Module, size: tuple[int, int]) -> None:
    """Check a graph's outputs against the module's, with a tolerance from the module's own results in float64."""
    image = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(1))
    results = DenseGraph(graph)(image), module(image), copy.deepcopy(module).double()(image.double())
    for ours, theirs, exact in zip(*map(values, results), strict=True):
        assert ours.shape == theirs.shape
        rounding = float((theirs - exact).abs().max())
        error = float((ours - exact).abs().max())
        assert error <= 1e-5 * float(exact.abs().max()) + 4 * rounding, f"{error:.3g}; the module's own {rounding:.3g}"


@torch.inference_mode()
def assert_depends_on_image(module: nn.Module, size: tuple[int, int]) -> None:
    """Check that a smooth and a noisy image give different outputs: otherwise errors could stay hidden."""
    generator = torch.Generator().manual_seed(1)
    smooth = nn.functional.interpolate(torch.randn(1, 3, 4, 4, generator=generator), size, mode="bilinear")
    noisy = torch.randn(1, 3, *size, generator=generator)
    for first, second in zip(values(module(smooth)), values(module(noisy)), strict=True):
        assert (first - second).abs().max() > 0.1 * first.abs().max()
