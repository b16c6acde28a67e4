"""Modules as graphs, and the check that both compute the same."""

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
    """The module's graph as it is before operators are fused, for images of (height, width)."""
    logging.getLogger("torch.export").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, (torch.zeros(1, 3, *size),))
        return lower(program.run_decompositions({}))


def graph_of(module: nn.Module, size: tuple[int, int]) -> Graph:
    """The module's graph, for images of (height, width)."""
    return fuse(lowered(module, size))


def values(result: Any) -> list[Tensor]:
    """Of whatever a network returns."""
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, (tuple, list)) else [result]


@torch.inference_mode()
def assert_same_function(graph: Graph, module: nn.Module, size: tuple[int, int]) -> None:
    """The graph's outputs are those of the module but for rounding, which is judged by its results in float64.

    Judged too is how the outputs differ between two images, lest a network that hardly looks at its image hides errors.
    """
    images = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1)).split(1)
    double = copy.deepcopy(module).double()
    dense = DenseGraph(graph)
    runs = [
        [[v.double() for v in values(result)] for result in (dense(i), module(i), double(i.double()))] for i in images
    ]
    for first, second in zip(zip(*runs[0], strict=True), zip(*runs[1], strict=True), strict=True):
        assert first[0].shape == first[1].shape
        size = float(first[2].abs().max())
        _assert_close(*first, precision=1e-5 * size)
        ours, theirs, exact = (a - b for a, b in zip(first, second, strict=True))
        _assert_close(ours, theirs, exact, precision=1e-5 * float(exact.abs().max()) + 1e-6 * size)


def _assert_close(ours: Tensor, theirs: Tensor, exact: Tensor, *, precision: float) -> None:
    rounding = float((theirs - exact).abs().max())
    error = float((ours - exact).abs().max())
    assert error <= precision + 4 * rounding, f"error {error:.3g}; the module's own {rounding:.3g}"
