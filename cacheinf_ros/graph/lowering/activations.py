# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for activations of ATen, with the arguments of each operator's schema, in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cacheinf_ros.graph.activation import UNBOUNDED, Activation, ActivationKind
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.elementwise import affine, channel_vector, commuting, pointwise
from cacheinf_ros.graph.lowering.view import View

aten = torch.ops.aten

_SOFTPLUS_THRESHOLD = 20.0  # torch's default: above it the function is taken as linear


def plain(kind: ActivationKind) -> Callable[[Builder, View], View]:
    """Return the rule for an activation without parameters."""
    return lambda b, x: affine(b, x, activation=Activation(kind=kind))


def clamp(b: Builder, x: View, low: Any = None, high: Any = None) -> View:
    """Limit values, from below or above or both."""
    limits = (UNBOUNDED[0] if low is None else low, UNBOUNDED[1] if high is None else high)
    return affine(b, x, activation=Activation.clamp(float(limits[0]), float(limits[1])))


def relu(b: Builder, x: View) -> View:
    """Set negative values to 0."""
    return clamp(b, x, 0.0)


def relu6(b: Builder, x: View) -> View:
    """Limit values to 0..6."""
    return clamp(b, x, 0.0, 6.0)


def clamp_max(b: Builder, x: View, high: Any) -> View:
    """Limit values from above."""
    return clamp(b, x, None, high)


def leaky_relu(b: Builder, x: View, slope: float) -> View:
    """Scale negative values by one slope."""
    return prelu(b, x, torch.tensor([float(slope)]))


def rrelu(b: Builder, x: View, lower: float, upper: float, training: bool, *_: Any) -> View:
    """Scale negative values as in inference, where the slope is the mean of its bounds."""
    if training:
        raise NotLocal
    return leaky_relu(b, x, (lower + upper) / 2)


def prelu(b: Builder, x: View, weight: torch.Tensor) -> View:
    """Scale negative values by one slope, or by one per channel; channels are the second dimension."""
    x = commuting(b, x)
    slope = channel_vector(x, weight.reshape(-1, *(1,) * (len(x.shape) - 2)).double()).float()
    return affine(b, x, activation=Activation(kind=ActivationKind.PRELU, slope=slope))


def gelu(b: Builder, x: View, *, approximate: str = "none") -> View:
    """Apply GELU, exactly or approximated by the hyperbolic tangent."""
    kind = ActivationKind.GELU_TANH if approximate == "tanh" else ActivationKind.GELU
    return affine(b, x, activation=Activation(kind=kind))


def elu(b: Builder, x: View, alpha: float, scale: float, input_scale: float) -> View:
    """Apply ELU, in the general form by which torch also computes its relatives."""
    if input_scale != 1:
        return pointwise(b, x, aten.elu.default, alpha, scale, input_scale)
    result = affine(b, x, activation=Activation(kind=ActivationKind.ELU, alpha=float(alpha)))
    return result if scale == 1 else affine(b, result, scale=float(scale))


def selu(b: Builder, x: View) -> View:
    """Apply scaled ELU, with the constants of its paper (arXiv 1706.02515)."""
    return elu(b, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)


def celu(b: Builder, x: View, alpha: float) -> View:
    """Apply CELU, an ELU whose derivative is continuous."""
    return elu(b, x, alpha, 1, 1) if alpha == 1 else pointwise(b, x, aten.celu.default, alpha)


def softplus(b: Builder, x: View, beta: float, threshold: float) -> View:
    """Compute log(1 + exp(beta * x)) / beta."""
    if threshold != _SOFTPLUS_THRESHOLD:
        return pointwise(b, x, aten.softplus.default, beta, threshold)
    scaled = None if beta == 1 else float(beta)
    result = affine(b, x, scale=scaled, activation=Activation(kind=ActivationKind.SOFTPLUS))
    return result if scaled is None else affine(b, result, scale=1 / scaled)


def log_sigmoid(b: Builder, x: View) -> View:
    """Compute log(sigmoid(x)) = -softplus(-x)."""
    softened = affine(b, x, scale=-1.0, activation=Activation(kind=ActivationKind.SOFTPLUS))
    return affine(b, softened, scale=-1.0)


def threshold(b: Builder, x: View, limit: float, value: float) -> View:
    """Replace what is not above the limit by the value."""
    return relu(b, x) if limit == value == 0 else pointwise(b, x, aten.threshold.default, limit, value)


def function(call: Callable[..., torch.Tensor]) -> Callable[..., View]:
    """Return the rule for a function of single values without an operator of its own, with its schema's arguments."""
    return lambda b, x, *arguments: pointwise(b, x, call, *arguments)
