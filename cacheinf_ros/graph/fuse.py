"""Rewrites that leave the outputs as they are: batch norms, activations and residuals move into convolutions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from cacheinf_ros.graph.ir import UNBOUNDED, Conv, Graph, Operator, Pointwise, TensorRef
from cacheinf_ros.graph.lower import scale_and_shift

aten = torch.ops.aten


def fuse(graph: Graph) -> Graph:
    """The same function with fewer operators, so that fewer tensors are cached and fewer passes made over rows."""
    uses = Counter(name for operator in graph.operators for name in operator.inputs)
    uses.update(tensor for _, tensor in graph.outputs)
    fused: dict[str, Operator] = {}  # by output, in order of execution
    for operator in graph.operators:
        merged = _merged(operator, fused, uses) if isinstance(operator, Pointwise) else None
        if merged is not None:
            absorbed = next(name for name in operator.inputs if _is_conv(name, fused, uses))
            del fused[absorbed]
        fused[operator.output] = merged or operator
    operators = tuple(fused.values())
    kept = {graph.input} | {o.output for o in operators}
    return replace(graph, operators=operators, tensors={n: s for n, s in graph.tensors.items() if n in kept})


def _merged(operator: Pointwise, fused: dict[str, Operator], uses: Counter[str]) -> Operator | None:
    for name in operator.inputs:
        if not _is_conv(name, fused, uses):
            continue
        conv = fused[name]
        assert isinstance(conv, Conv)
        return _with_affine(conv, operator) or _with_residual(conv, operator) or _with_clamp(conv, operator)
    return None


def _is_conv(name: str, fused: dict[str, Operator], uses: Counter[str]) -> bool:
    """Whether the tensor is a convolution's that nobody else reads and that can still take something in."""
    operator = fused.get(name)
    return isinstance(operator, Conv) and uses[name] == 1 and operator.clamp == UNBOUNDED


def _with_affine(conv: Conv, operator: Pointwise) -> Conv | None:
    if operator.call is not scale_and_shift or len(conv.inputs) > 1:
        return None
    scale, shift = (value.double().flatten() for value in operator.arguments[1:])
    return replace(
        conv,
        output=operator.output,
        weight=(conv.weight.double() * scale.view(-1, 1, 1, 1)).float(),
        bias=(conv.bias.double() * scale + shift).float(),
    )


def _with_residual(conv: Conv, operator: Pointwise) -> Conv | None:
    """conv(x) + y; executed where the sum was, so that y is there."""
    if operator.call is not aten.add.Tensor or len(operator.inputs) != 2 or len(conv.inputs) > 1:
        return None
    left, right = operator.arguments[:2]
    if len(operator.arguments) != 2 or not isinstance(left, TensorRef) or not isinstance(right, TensorRef):
        return None
    residual = right.name if left.name == conv.output else left.name
    return replace(conv, inputs=(conv.inputs[0], residual), output=operator.output)


def _with_clamp(conv: Conv, operator: Pointwise) -> Conv | None:
    bounds = clamp_bounds(operator)
    return None if bounds is None else replace(conv, output=operator.output, clamp=bounds)


def clamp_bounds(operator: Pointwise) -> tuple[float, float] | None:
    """(low, high) of an activation that only limits its values, otherwise None."""
    values = operator.arguments[1:]
    if operator.call is aten.relu.default:
        return 0.0, float("inf")
    if operator.call is aten.hardtanh.default:
        return (float(values[0]), float(values[1])) if len(values) == 2 else (-1.0, 1.0)
    if operator.call is aten.clamp.default:
        low, high = (*values, None, None)[:2]
        return (UNBOUNDED[0] if low is None else float(low), UNBOUNDED[1] if high is None else float(high))
    return None
