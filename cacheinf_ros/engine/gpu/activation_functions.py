# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Activation functions for Triton kernels: those of :class:`cacheinf_ros.graph.activation.Activation`."""

# What Triton compiles is not plain Python, so there are no type annotations.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    """Compute tanh(x) without losing the digits of small values, as (e - 1) / (e + 1) would."""
    squared = x * x
    small = x * (1.0 + squared * (-1.0 / 3 + squared * (2.0 / 15 + squared * (-17.0 / 315 + squared * (62.0 / 2835)))))
    size = tl.abs(x)
    large = 1.0 - 2.0 / (tl.exp(2.0 * size) + 1.0)
    return tl.where(size < 0.3, small, tl.where(x < 0, -large, large))


@triton.jit
def _expm1(x):
    """Compute exp(x) - 1 for values that are not positive."""
    small = x * (1.0 + x * (1.0 / 2 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720))))))
    return tl.where(x > -0.3, small, tl.exp(x) - 1.0)


@triton.jit
def _clamp(x, low, high):
    """Clamp values to [low, high], where None is no limit; NaN stays NaN."""
    if low is not None:
        x = tl.maximum(x, low, propagate_nan=tl.PropagateNan.ALL)
    if high is not None:
        x = tl.minimum(x, high, propagate_nan=tl.PropagateNan.ALL)
    return x


@triton.jit
def activate(x, slope, KIND: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr):
    """Apply an activation to a block of values; ``slope``: the slopes of its channels, used only by "prelu"."""
    if KIND == "clamp":
        x = _clamp(x, LOW, HIGH)
    elif KIND == "prelu":
        x = tl.where(x < 0, x * slope, x)
    elif KIND == "sigmoid":
        x = 1.0 / (1.0 + tl.exp(-x))
    elif KIND == "tanh":
        x = _tanh(x)
    elif KIND == "silu":
        x = x / (1.0 + tl.exp(-x))
    elif KIND == "hardsigmoid":
        x = _clamp(x + 3.0, 0.0, 6.0) / 6.0
    elif KIND == "hardswish":
        x = x * _clamp(x + 3.0, 0.0, 6.0) / 6.0
    elif KIND == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif KIND == "gelu_tanh":
        x = 0.5 * x * (1.0 + _tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    elif KIND == "elu":
        x = tl.where(x > 0, x, ALPHA * _expm1(tl.minimum(x, 0.0)))
    elif KIND == "softplus":
        x = tl.where(x > 20.0, x, tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x))))
    elif KIND == "mish":
        u = tl.exp(tl.minimum(x, 20.0))
        x = tl.where(x > 20.0, x, x * (u * u + 2.0 * u) / (u * u + 2.0 * u + 2.0))
    return x


@triton.jit
def activate_tile(value, slope, tile, KIND: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ALPHA: tl.constexpr):
    """Apply an activation to a :class:`Tile`'s values [pixels, columns].

    Args:
        value: the values.
        slope: pointer to the slopes of all channels, read only for "prelu".
        tile: which channels the columns are.
    """
    steepness = value
    if KIND == "prelu":
        steepness = tl.load(slope + tile.channel, mask=tile.is_channel, other=0.0)[None, :]
    return activate(value, steepness, KIND, LOW, HIGH, ALPHA)
