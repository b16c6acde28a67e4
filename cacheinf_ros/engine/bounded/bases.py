# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Thresholds to start from: how changes of different tensors compare with one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.bounded.candidates import propagation_points
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import DenseGraph, Graph

Base = Mapping[str, DeltaThreshold]
_SPREAD_UNIT = 30.0  # makes the factors that suit sensitivities suit standard deviations as well


def possible_bases(
    graph: Graph,
    computed: Iterable[str],
    weights: Mapping[str, NDArray[np.float32]],
    spreads: Mapping[str, float],
) -> dict[str, Base]:
    """Build the bases to choose from, by name.

    None is best for every network: on large maps pooling saves a tenth, on the maps of small detectors it blurs what
    matters; where hardly any tensor's errors matter more than another's, plain standard deviations save as much.

    Args:
        computed: the tensors whose changes can be held back, beside the input.
        weights: the weights of channels, by tensor; see :func:`channel_weights`.
        spreads: standard deviations of values, by tensor.

    Raises:
        EngineError: there is nothing that could be held back.
    """
    computed = tuple(computed)
    points = [name for name in propagation_points(graph) if name == graph.input or name in computed]
    bases: dict[str, Base] = {}
    for criterion in (Criterion.ENERGY, Criterion.POOLED_ENERGY):
        bases[f"sensitivity, {criterion.value}"] = sensitivity_base(graph, points, weights, criterion)
        bases[f"spread, {criterion.value}"] = spread_base(graph, points, spreads, criterion)
    bases["spread, everywhere"] = spread_base(graph, (graph.input, *computed), spreads, Criterion.ENERGY)
    found = {name: base for name, base in bases.items() if base}
    if not found:
        raise EngineError("these frames do not move the model's outputs: calibrate on frames that show something")
    return found


def sensitivity_base(
    graph: Graph, names: Iterable[str], weights: Mapping[str, NDArray[np.float32]], criterion: Criterion
) -> Base:
    """Build a base in units of the ``engine_error`` of holding a change back at one pixel; see sensitivity.py."""
    return {
        name: DeltaThreshold(threshold=1.0, criterion=_criterion(graph, name, criterion), weight=weights[name])
        for name in names
        if name in weights and weights[name].any()
    }


def spread_base(graph: Graph, names: Iterable[str], spreads: Mapping[str, float], criterion: Criterion) -> Base:
    """Build a base for the RMS of a change over channels, in units of the tensor's standard deviation."""
    return {
        name: DeltaThreshold(
            threshold=_SPREAD_UNIT * spreads[name] * graph.tensors[name].channels ** 0.5,
            criterion=_criterion(graph, name, criterion),
        )
        for name in names
        if spreads.get(name) and graph.tensors[name].pixels > 1
    }


def standard_deviations(graph: Graph, inputs: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """Measure each tensor's standard deviation, as root mean square over inputs, float32 [1, 3, height, width] each."""
    dense, squares = DenseGraph(graph), dict[str, float]()
    maps = [name for name, spec in graph.tensors.items() if spec.is_map and spec.pixels > 1]
    for image in inputs:
        with torch.inference_mode():
            values = dense.tensors(torch.from_numpy(image))
        for name in maps:
            if values[name].is_floating_point():  # what a global operator returns may be classes
                squares[name] = squares.get(name, 0.0) + float(values[name].var())
    return {name: (total / len(inputs)) ** 0.5 for name, total in squares.items()}


def _criterion(graph: Graph, name: str, criterion: Criterion) -> Criterion:
    """Return the criterion for a tensor: ENERGY for the input, which is compared pixel by pixel as it is written."""
    return Criterion.ENERGY if name == graph.input else criterion
