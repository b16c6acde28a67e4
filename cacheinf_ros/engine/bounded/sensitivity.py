# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How much a model's outputs react to a change of each of its tensors.

With outputs z scaled so that ``|z - z'|`` is ``engine_error``, and J the Jacobian of z by a tensor, holding back a
change d of that tensor costs an error of |J d|. For a random v of independent N(0, 1) entries, the expectation of
``(v^T J d)**2`` is ``|J d|**2`` (Hutchinson's estimator), and ``v^T J`` is one backward pass, for all tensors at once.
Taking the channels' errors as independent, a pixel whose channels change by d_c costs ``sum_c (w_c d_c)**2``, w_c**2
being the mean of ``(v^T J)**2`` over pixels and draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import DenseGraph, Graph

_SEED = 5


def channel_weights(
    graph: Graph,
    inputs: Sequence[NDArray[np.float32]],
    scale: OutputScale,
    draws: int = 4,
    between: Callable[[], None] = lambda: None,
) -> Mapping[str, NDArray[np.float32]]:
    """Estimate the error that a unit change of a channel at one pixel costs: by tensor, float32 [channels].

    Args:
        inputs: typical inputs of the stream, float32 [1, 3, height, width] each.
        draws: random output directions per input.
        between: called between inputs.
    """
    dense = DenseGraph(graph)
    maps = [name for name, spec in graph.tensors.items() if spec.is_map]
    squares = {name: torch.zeros(graph.tensors[name].channels, dtype=torch.float64) for name in maps}
    generator = torch.Generator().manual_seed(_SEED)
    for image in inputs:
        between()
        for name, gradients in _gradients(dense, graph, torch.from_numpy(image), scale, maps, draws, generator):
            squares[name] += gradients.double().square().flatten(2).mean((0, 2))
    passes = len(inputs) * draws
    return {name: (total / passes).sqrt().float().numpy() for name, total in squares.items()}


def _gradients(
    dense: DenseGraph,
    graph: Graph,
    image: torch.Tensor,
    scale: OutputScale,
    maps: Sequence[str],
    draws: int,
    generator: torch.Generator,
) -> Sequence[tuple[str, torch.Tensor]]:
    """Return (tensor, gradient [1, channels, pixels, 1]) for every draw and tensor that the outputs depend on."""
    found = []
    with torch.enable_grad():
        values = dense.tensors(image.requires_grad_(True))
        tensors = {name: values[name] for name in maps if values[name].requires_grad}
        outputs = [values[tensor] for _, tensor in graph.outputs]
        if not any(output.requires_grad for output in outputs):
            raise EngineError(
                "the network cannot be calibrated: its outputs are whole numbers, such as classes, which say nothing "
                "of small errors; export it with scores"
            )
        for _ in range(draws):
            total = torch.zeros(())
            for output, deviation in zip(outputs, scale.deviations, strict=True):
                direction = torch.randn(output.shape, generator=generator)
                total = total + (output * direction).sum() / (deviation * output.numel() ** 0.5)
            gradients = torch.autograd.grad(total, list(tensors.values()), retain_graph=True, allow_unused=True)
            found += [
                (name, gradient.reshape(1, graph.tensors[name].channels, -1, 1))
                for name, gradient in zip(tensors, gradients, strict=True)
                if gradient is not None
            ]
    return found
