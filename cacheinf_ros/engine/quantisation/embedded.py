# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Extracts the scales of models that were quantised before loading (ONNX with QuantizeLinear and DequantizeLinear)."""

from __future__ import annotations

from dataclasses import replace

import torch

from cacheinf_ros.graph import Graph, Model, Scales, renamed
from cacheinf_ros.graph.ir import LARGEST_LEVEL, Conv, Levels, Operator, Pointwise

_ROUND = torch.ops.aten.fake_quantize_per_tensor_affine.default
_LARGEST = 127  # the largest rounded weight
_MOST_STEPS = 255  # from 0 to the largest weight in a file's 8 bits, whatever their level of zero
_EXACT = 1e-3  # how far a weight may be from a whole number of steps, as it was stored as a float


def embedded_scales(graph: Graph) -> tuple[Graph, Scales | None]:
    """Return the graph without the operators that only round, and the scales that they round to.

    Where there are no such operators, the graph is returned as it is, with None. Where a tensor is rounded in two ways,
    the first one becomes its levels.
    """
    levels: dict[str, Levels] = {}
    same: dict[str, str] = {}
    operators: list[Operator] = []
    for operator in graph.operators:
        operator = renamed(operator, same)
        if isinstance(operator, Pointwise) and operator.call is _ROUND and _has_8_bits(operator):
            (source,) = operator.inputs
            found = _levels(operator)
            if levels.setdefault(source, found) == found:
                same[operator.output] = source
                continue
        operators.append(operator)
    if not levels:
        return graph, None
    outputs = tuple((name, same.get(tensor, tensor)) for name, tensor in graph.outputs)
    tensors = {name: spec for name, spec in graph.tensors.items() if name not in same}
    units = {o.output: _units(o) for o in operators if isinstance(o, Conv)}
    return replace(graph, operators=tuple(operators), outputs=outputs, tensors=tensors), Scales(
        levels=levels,
        weight_scales={name: unit for name, unit in units.items() if unit is not None},
        floats=frozenset(name for name, unit in units.items() if unit is None),
        round_outputs=True,
    )


def own_scales(model: Model) -> Scales | None:
    """Return the scales that a model was quantised with before it was loaded; None: it was not."""
    return embedded_scales(model.graph)[1]


def _has_8_bits(operator: Pointwise) -> bool:
    """Tell whether an operator rounds to at most as many levels as kernels have; otherwise torch still computes it."""
    *_, lowest, highest = operator.arguments
    return int(highest) - int(lowest) <= LARGEST_LEVEL


def _levels(operator: Pointwise) -> Levels:
    _, scale, zero, lowest, _ = operator.arguments
    return Levels(scale=float(scale), zero=int(zero) - int(lowest))


def _units(conv: Conv) -> torch.Tensor | None:
    """Return the largest unit of which all weights of an output channel are whole multiples, float32 [outputs].

    Where these are more than -128 to 127, the unit is 1 / 127 of the largest weight. None: the weights were not
    quantised, as those of a layer that is to stay in floats.
    """
    rows = conv.weight.flatten(1).double()
    largest = rows.abs().amax(1).clamp(min=1e-12)
    found = largest / _LARGEST
    is_known = torch.zeros(len(rows), dtype=torch.bool)
    rows = rows / largest[:, None]
    lowest, highest = rows.amin(1), rows.amax(1)
    for count in range(_MOST_STEPS, 0, -1):
        steps = rows * count
        is_exact = steps.sub_(steps.round()).abs_().amax(1) < _EXACT
        fits = (lowest * count > -_LARGEST - 1.5) & (highest * count < _LARGEST + 0.5)
        is_known |= is_exact
        found = torch.where(is_exact & fits, largest / count, found)
    return found.float() if bool(is_known.all()) else None
