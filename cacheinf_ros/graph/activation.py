# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Activations: functions of one value, applied to every channel of every pixel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch.nn import functional

UNBOUNDED = (float("-inf"), float("inf"))


class ActivationKind(Enum):
    """The function of an activation; the names are torch's."""

    LINEAR = "linear"
    CLAMP = "clamp"  # relu, relu6, hardtanh
    PRELU = "prelu"  # leaky_relu too
    SIGMOID = "sigmoid"
    TANH = "tanh"
    SILU = "silu"
    HARDSIGMOID = "hardsigmoid"
    HARDSWISH = "hardswish"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    ELU = "elu"
    SOFTPLUS = "softplus"
    MISH = "mish"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activation:
    """An activation with its parameters.

    Attributes:
        low: lower limit of CLAMP.
        high: upper limit of CLAMP.
        slope: float32 [channels] of PRELU: the factor of negative values.
        alpha: factor of ELU's negative branch.
    """

    kind: ActivationKind = ActivationKind.LINEAR
    low: float = UNBOUNDED[0]
    high: float = UNBOUNDED[1]
    slope: torch.Tensor | None = None
    alpha: float = 1.0

    @classmethod
    def clamp(cls, low: float, high: float) -> Activation:
        """Return the activation that limits values to low..high."""
        return cls(kind=ActivationKind.CLAMP, low=low, high=high)

    @classmethod
    def relu(cls) -> Activation:
        """Return the activation that sets negative values to 0."""
        return cls.clamp(0.0, UNBOUNDED[1])

    @property
    def is_linear(self) -> bool:
        """Whether the activation does nothing."""
        return self.kind is ActivationKind.LINEAR

    def on(self, device: torch.device) -> Activation:
        """Return the activation with its slopes on a device: put there once, not in each call."""
        return self if self.slope is None else replace(self, slope=self.slope.to(device))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the activation to x, float32 [1, channels, ...]."""
        if self.kind is ActivationKind.LINEAR:
            return x
        if self.kind is ActivationKind.CLAMP:
            return x.relu() if (self.low, self.high) == (0.0, UNBOUNDED[1]) else x.clamp(self.low, self.high)
        if self.kind is ActivationKind.PRELU:
            assert self.slope is not None
            return functional.prelu(x, self.slope.to(x))
        if self.kind is ActivationKind.GELU_TANH:
            return functional.gelu(x, approximate="tanh")
        if self.kind is ActivationKind.ELU:
            return functional.elu(x, self.alpha)
        function = torch.tanh if self.kind is ActivationKind.TANH else getattr(functional, self.kind.value)
        result: torch.Tensor = function(x)
        return result


LINEAR = Activation()
