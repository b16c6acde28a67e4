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
_SPREAD_UNIT = 30.0  # so that the factors that suit sensitivities suit spreads


def possible_bases(
    graph: Graph,
    computed: Iterable[str],
    weights: Mapping[str, NDArray[np.float32]],
    spreads: Mapping[str, float],
) -> dict[str, Base]:
    """By name. None is best for every network: on large maps pooling saves a tenth, on the maps of small detectors it
    blurs what matters; where hardly any tensor's errors matter more than another's, so do plain spreads.

    Args:
        computed: tensors of which changes can be held back, beside the input.
        weights: of channels, by tensor; see :func:`channel_weights`.
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
    """Judge in units of ``engine_error`` what holding a change back at one pixel costs; see sensitivity.py."""
    return {
        name: DeltaThreshold(threshold=1.0, criterion=_criterion(graph, name, criterion), weight=weights[name])
        for name in names
        if name in weights and weights[name].any()
    }


def spread_base(graph: Graph, names: Iterable[str], spreads: Mapping[str, float], criterion: Criterion) -> Base:
    """RMS over channels, in units of the tensor's standard deviation."""
    return {
        name: DeltaThreshold(
            threshold=_SPREAD_UNIT * spreads[name] * graph.tensors[name].channels ** 0.5,
            criterion=_criterion(graph, name, criterion),
        )
        for name in names
        if spreads.get(name) and graph.tensors[name].pixels > 1
    }


def standard_deviations(graph: Graph, inputs: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """Measure by tensor those of the values for each input, float32 [1, 3, height, width]; their root mean square."""
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
    """The input is compared as it is written, pixel by pixel."""
    return Criterion.ENERGY if name == graph.input else criterion
