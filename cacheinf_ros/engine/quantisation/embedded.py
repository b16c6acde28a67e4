# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The scales of a model that was quantised before it was loaded (ONNX with QuantizeLinear and DequantizeLinear)."""

from __future__ import annotations

from dataclasses import replace

import torch

from cacheinf_ros.graph import Graph, Model, Scales, renamed
from cacheinf_ros.graph.ir import LARGEST_LEVEL, Conv, Levels, Operator, Pointwise

_ROUND = torch.ops.aten.fake_quantize_per_tensor_affine.default
_LARGEST = 127  # of a rounded weight
_EXACT = 1e-3  # steps that a weight may lie beside a whole number: it was stored as a float in between


def embedded_scales(graph: Graph) -> tuple[Graph, Scales | None]:
    """The graph without the operators that only round, and the levels that they round to.

    None, with the graph as it is, where there are none. Of two ways to round one tensor the first becomes its levels.
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
        levels=levels, weight_scales=units, round_outputs=True
    )


def own_scales(model: Model) -> Scales | None:
    """Those that a model was quantised with before it was loaded; None: it was not."""
    return embedded_scales(model.graph)[1]


def _has_8_bits(operator: Pointwise) -> bool:
    """Whether it rounds to no more levels than kernels have; else it stays what it is, an operator of torch."""
    *_, lowest, highest = operator.arguments
    return int(highest) - int(lowest) <= LARGEST_LEVEL


def _levels(operator: Pointwise) -> Levels:
    _, scale, zero, lowest, _ = operator.arguments
    return Levels(scale=float(scale), zero=int(zero) - int(lowest))


def _units(conv: Conv) -> torch.Tensor:
    """float32 [outputs]: the largest unit of which all weights of an output are whole multiples, as they were stored.

    Where there is none (the weights were not quantised) the largest weight is 127 of it.
    """
    rows = conv.weight.flatten(1).double()
    largest = rows.abs().amax(1).clamp(min=1e-12)
    found = largest / _LARGEST
    for count in range(_LARGEST, 0, -1):
        steps = rows * (count / largest)[:, None]
        is_exact = (steps - steps.round()).abs().amax(1) < _EXACT
        found = torch.where(is_exact, largest / count, found)
    return found.float()
