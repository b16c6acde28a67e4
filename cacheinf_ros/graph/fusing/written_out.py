# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Recognise activations that exporters write out as simpler operators, as ONNX had no name for them at first."""

from __future__ import annotations

from dataclasses import replace

import torch

from cacheinf_ros.graph.activation import Activation, ActivationKind
from cacheinf_ros.graph.fusing.rewriting import Done, Rewrite
from cacheinf_ros.graph.ir import Combine, Elementwise, Operator, Pointwise

_GATED = {
    ActivationKind.SIGMOID: ActivationKind.SILU,
    ActivationKind.HARDSIGMOID: ActivationKind.HARDSWISH,
}
_RELATIVE = 1e-6  # constants in a file are rounded to float32, or to the digits that somebody typed
_ERF = torch.ops.aten.erf.default


def gate(done: Done, operator: Elementwise) -> Rewrite | None:
    """Rewrite x * sigmoid(x) as SiLU, and likewise hard swish, Mish and GELU."""
    if operator.combine is not Combine.MUL:
        return None
    for name, x in (operator.inputs[::-1], operator.inputs):
        found = _gate_of(done, name, x)
        if found is None:
            continue
        kind, factor, gates = found
        product = Elementwise(name=gates[0].name, inputs=(x,), output=name, activation=Activation(kind=kind))
        scale = operator.scale if factor == 1 else _scaled(operator.scale, factor, done.tensors[x].channels)
        rest = replace(operator, inputs=(name,), combine=None, scale=scale)
        return Rewrite(absorbed=gates, operators=(product, rest))
    return None


def hard_sigmoid(done: Done, operator: Elementwise) -> Rewrite | None:
    """Rewrite relu6(x + 3) / 6, or x / 6 + 1 / 2 between 0 and 1, as hard sigmoid."""
    if operator.combine is not None:
        return None
    named = Activation(kind=ActivationKind.HARDSIGMOID)
    if is_all(operator.scale, 1 / 6) and is_all(operator.shift, 0.5) and _limits(operator) == (0, 1):
        return Rewrite(operators=(replace(operator, scale=None, shift=None, activation=named),))
    inner = done.sole(operator.inputs[0], Elementwise)
    if inner is None or not _is_relu6_of_3_more(inner) or not is_all(operator.scale, 1 / 6):
        return None
    if operator.shift is not None or not operator.activation.is_linear:
        return None
    return Rewrite(absorbed=(inner,), operators=(replace(operator, inputs=inner.inputs, scale=None, activation=named),))


def is_all(values: torch.Tensor | None, expected: float) -> bool:
    """Tell whether there are values, and all are the positive one that is expected, but for rounding."""
    return values is not None and bool(((values - expected).abs() <= _RELATIVE * expected).all())


def _gate_of(done: Done, name: str, x: str) -> tuple[ActivationKind, float, tuple[Operator, ...]] | None:
    """Return what x becomes if it is multiplied by a tensor, by which factor too large, and what makes that tensor."""
    gates = done.sole(name, Elementwise)
    if gates is None or gates.combine is not None:
        return None
    kind = gates.activation.kind
    if gates.inputs == (x,):
        if kind in _GATED and not gates.is_affine:
            return _GATED[kind], 1, (gates,)
        return (ActivationKind.HARDSWISH, 6, (gates,)) if _is_relu6_of_3_more(gates) else None
    if kind is ActivationKind.TANH and not gates.is_affine:
        inner = done.sole(gates.inputs[0], Elementwise)
        is_softplus = inner is not None and inner.activation.kind is ActivationKind.SOFTPLUS and not inner.is_affine
        if inner is not None and is_softplus and inner.inputs == (x,):
            return ActivationKind.MISH, 1, (gates, inner)
    if gates.activation.is_linear and gates.scale is None and is_all(gates.shift, 1):
        return _gelu(done, gates, x)
    return None


def _gelu(done: Done, gates: Elementwise, x: str) -> tuple[ActivationKind, float, tuple[Operator, ...]] | None:
    """Recognise 1 + erf(x / sqrt(2)), which is twice the gate of GELU."""
    erf = done.sole(gates.inputs[0], Pointwise)
    inner = None if erf is None or erf.call is not _ERF else done.sole(erf.inputs[0], Elementwise)
    if erf is None or inner is None or inner.inputs != (x,) or not inner.activation.is_linear:
        return None
    return (
        (ActivationKind.GELU, 2, (gates, erf, inner)) if inner.shift is None and is_all(inner.scale, 0.5**0.5) else None
    )


def _is_relu6_of_3_more(operator: Elementwise) -> bool:
    return (
        operator.combine is None
        and operator.scale is None
        and is_all(operator.shift, 3)
        and _limits(operator) == (0, 6)
    )


def _limits(operator: Elementwise) -> tuple[float, float] | None:
    activation = operator.activation
    return (activation.low, activation.high) if activation.kind is ActivationKind.CLAMP else None


def _scaled(scale: torch.Tensor | None, factor: float, channels: int) -> torch.Tensor:
    return torch.full((channels,), float(factor)) if scale is None else scale * factor  # else of ints
