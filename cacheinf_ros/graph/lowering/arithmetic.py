# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for ATen's arithmetic with numbers, constant tensors and maps; arguments are those of each schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cacheinf_ros.graph.activation import Activation, ActivationKind
from cacheinf_ros.graph.ir import Combine
from cacheinf_ros.graph.lowering.activations import clamp
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.elementwise import affine, combine, pointwise
from cacheinf_ros.graph.lowering.view import View

aten = torch.ops.aten

Operand = View | torch.Tensor | float


def add(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> View:
    """Compute x + alpha * y."""
    if isinstance(x, View):
        return _plus(b, x, y, alpha)
    assert isinstance(y, View)
    return affine(b, y, scale=None if alpha == 1 else float(alpha), shift=x)


def sub(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> View:
    """Compute x - alpha * y."""
    if isinstance(x, View) and isinstance(y, View) and alpha == 1:
        return combine(b, x, y, Combine.SUB)
    return add(b, x, y, -alpha)


def rsub(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> View:
    """Compute y - alpha * x."""
    return sub(b, y, x, alpha)


def mul(b: Builder, x: Operand, y: Operand) -> View:
    """Compute x * y."""
    if isinstance(x, View) and isinstance(y, View):
        return combine(b, x, y, Combine.MUL)
    if isinstance(x, View):
        assert not isinstance(y, View)
        return affine(b, x, scale=y)
    return affine(b, _view(y), scale=x)


def div(b: Builder, x: Operand, y: Operand) -> View:
    """Compute x / y."""
    if not isinstance(x, View):
        return affine(b, pointwise(b, _view(y), aten.reciprocal.default), scale=x)
    if isinstance(y, View):
        return combine(b, x, y, Combine.DIV)
    return affine(b, x, scale=1 / torch.as_tensor(y, dtype=torch.float64))


def extremum(how: Combine) -> Callable[[Builder, Operand, Operand], View]:
    """Return the rule for the larger or the smaller of two operands."""

    def rule(b: Builder, x: Operand, y: Operand) -> View:
        if isinstance(x, View) and isinstance(y, View):
            return combine(b, x, y, how)
        limit = _number(y if isinstance(x, View) else x)
        return clamp(
            b, _view(x if isinstance(x, View) else y), *((limit,) if how is Combine.MAXIMUM else (None, limit))
        )

    return rule


def power(b: Builder, x: View, exponent: Any) -> View:
    """Compute x to the power of a number."""
    number = _number(exponent)
    if number == 1:
        return x
    return combine(b, x, x, Combine.MUL) if number == 2 else pointwise(b, x, aten.pow.Tensor_Scalar, number)


def square(b: Builder, x: View) -> View:
    """Compute x * x."""
    return combine(b, x, x, Combine.MUL)


def neg(b: Builder, x: View) -> View:
    """Compute -x."""
    return affine(b, x, scale=-1.0)


def addcmul(b: Builder, x: Operand, y: Operand, z: Operand, *, value: float = 1) -> View:
    """Compute x + value * y * z."""
    if not isinstance(y, View) and not isinstance(z, View):
        raise NotLocal
    return add(b, x, mul(b, y, z), value)


def glu(b: Builder, x: View, dim: int) -> View:
    """Gate the first half of a dimension by the second."""
    half = x.shape[dim] // 2
    value, gate = (x.then(aten.narrow.default, dim, start, half) for start in (0, half))
    return mul(b, value, affine(b, gate, activation=Activation(kind=ActivationKind.SIGMOID)))


def _plus(b: Builder, x: View, y: Operand, alpha: float) -> View:
    if isinstance(y, View):
        return combine(b, x, y if alpha == 1 else affine(b, y, scale=float(alpha)), Combine.ADD)
    return affine(b, x, shift=torch.as_tensor(y, dtype=torch.float64) * alpha)


def _view(x: Operand) -> View:
    assert isinstance(x, View)
    return x


def _number(x: Operand) -> float:
    """Return a number, or the value of a tensor that has only one.

    Raises:
        NotLocal: the tensor has several values, or depends on the image.
    """
    if isinstance(x, View):
        raise NotLocal
    values = torch.as_tensor(x, dtype=torch.float64).unique()
    if len(values) != 1:
        raise NotLocal
    return float(values[0])
