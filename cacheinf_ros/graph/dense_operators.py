# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The operators of the graph as torch modules on whole maps [1, channels, height, width], channels_last."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.graph.activation import Activation, ActivationKind
from cacheinf_ros.graph.dense_resample import DenseResample
from cacheinf_ros.graph.ir import (
    ChannelNorm,
    ChannelSoftmax,
    Combine,
    Concat,
    Conv,
    Elementwise,
    GlobalMean,
    Operator,
    PixelShuffle,
    Pool,
    Resample,
    Select,
)
from cacheinf_ros.graph.window import Window, exact_border

_IN_PLACE: dict[ActivationKind, Callable[[Tensor], Tensor]] = {
    ActivationKind.SIGMOID: torch.sigmoid_,
    ActivationKind.TANH: torch.tanh_,
    ActivationKind.SILU: lambda x: functional.silu(x, inplace=True),
    ActivationKind.HARDSIGMOID: lambda x: functional.hardsigmoid(x, inplace=True),
    ActivationKind.HARDSWISH: lambda x: functional.hardswish(x, inplace=True),
    ActivationKind.MISH: lambda x: functional.mish(x, inplace=True),
}
COMBINED_BY: dict[Combine, Callable[[Tensor, Tensor], Tensor]] = {
    Combine.ADD: torch.add,
    Combine.SUB: torch.sub,
    Combine.MUL: torch.mul,
    Combine.DIV: torch.div,
    Combine.MAXIMUM: torch.maximum,
    Combine.MINIMUM: torch.minimum,
}


def dense_operator(operator: Operator) -> nn.Module:
    """Return an operator, unless it has a call of its own, as a module from its inputs to its output."""
    return _MODULES[type(operator)](operator)


class DenseConv(nn.Module):
    """Convolution, residual and activation; only the convolution allocates memory."""

    weight: Tensor
    bias: Tensor
    slope: Tensor | None

    def __init__(self, operator: Conv) -> None:
        super().__init__()
        self.register_buffer("weight", operator.weight.contiguous(memory_format=torch.channels_last))
        self.register_buffer("bias", operator.bias)
        self.register_buffer("slope", operator.activation.slope)
        self._operator = operator
        self._border = _border(operator.window)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Convolve a map; the residual has the shape of the result."""
        operator, window = self._operator, self._operator.window
        padding = window.padding
        if self._border is not None:
            x, padding = functional.pad(x, self._border), (0, 0)
        x = functional.conv2d(x, self.weight, self.bias, window.stride, padding, window.dilation, operator.groups)
        if residual is not None and not operator.residual_last:
            x = _plus(x, residual)
        x = _activated(operator.activation, self.slope, x)
        return _plus(x, residual) if residual is not None and operator.residual_last else x


class DensePool(nn.Module):
    """Pooling by maximum or average."""

    def __init__(self, operator: Pool) -> None:
        super().__init__()
        self._operator = operator
        window = operator.window
        self._ceil_mode = _floor_size(window) != window.out_size
        self._border = None if operator.average else _unusual_border(window)

    def forward(self, x: Tensor) -> Tensor:
        """Pool a map."""
        operator, w = self._operator, self._operator.window
        if operator.average:
            return functional.avg_pool2d(x, w.kernel, w.stride, w.padding, self._ceil_mode, operator.count_padding)
        if self._border is not None:
            x = functional.pad(x, self._border, value=float("-inf"))
            return functional.max_pool2d(x, w.kernel, w.stride, 0, w.dilation)
        return functional.max_pool2d(x, w.kernel, w.stride, w.padding, w.dilation, self._ceil_mode)


class DenseElementwise(nn.Module):
    """Two maps are combined, scaled, shifted and activated."""

    scale: Tensor | None
    shift: Tensor | None
    slope: Tensor | None

    def __init__(self, operator: Elementwise) -> None:
        super().__init__()
        self._combine = None if operator.combine is None else COMBINED_BY[operator.combine]
        self._activation = operator.activation
        for name, vector in (("scale", operator.scale), ("shift", operator.shift)):
            self.register_buffer(name, None if vector is None else vector.view(1, -1, 1, 1))
        self.register_buffer("slope", operator.activation.slope)

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        """Compute from a map, and perhaps another one, which may have one pixel."""
        source = x
        if self._combine is not None:
            x = self._combine(x, x if other is None else other)
        if self.scale is not None and self.shift is not None:
            x = torch.addcmul(self.shift, x, self.scale)
        elif self.scale is not None:
            x = x * self.scale
        elif self.shift is not None:
            x = x + self.shift
        return _activated(self._activation, self.slope, x, is_ours=x is not source)


class DenseChannelNorm(nn.Module):
    """Layer norm over channels, which lie together in memory."""

    weight: Tensor
    bias: Tensor

    def __init__(self, operator: ChannelNorm) -> None:
        super().__init__()
        self.register_buffer("weight", operator.weight)
        self.register_buffer("bias", operator.bias)
        self._epsilon = operator.epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalise a map."""
        last = functional.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), self.weight, self.bias, self._epsilon)
        return last.permute(0, 3, 1, 2)


class DenseSelect(nn.Module):
    """Selection of channels by their numbers; consecutive ones need no copy."""

    channels: Tensor | None

    def __init__(self, operator: Select) -> None:
        super().__init__()
        self._first, self._count = operator.channels[0], len(operator.channels)
        self.register_buffer("channels", None if operator.is_together else torch.tensor(operator.channels))

    def forward(self, x: Tensor) -> Tensor:
        """Select the channels of a map."""
        if self.channels is None:
            return x.narrow(1, self._first, self._count)
        return x.index_select(1, self.channels)


class DensePixelShuffle(nn.Module):
    """Channels become pixels; the channels may be in either order."""

    def __init__(self, operator: PixelShuffle) -> None:
        super().__init__()
        self._factor = operator.factor
        self._phase_major = operator.phase_major

    def forward(self, x: Tensor) -> Tensor:
        """Shuffle a map."""
        f, height, width = self._factor, x.shape[2], x.shape[3]
        order = (f, f, -1) if self._phase_major else (-1, f, f)
        phases = x.permute(0, 2, 3, 1).reshape(height, width, *order)
        phases = phases.permute(0, 2, 1, 3, 4) if self._phase_major else phases.permute(0, 3, 1, 4, 2)
        return phases.reshape(1, height * f, width * f, -1).permute(0, 3, 1, 2)


class DenseFunction(nn.Module):
    """A call of a function of torch."""

    def __init__(self, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self._call = call

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute from all inputs of the operator."""
        return self._call(*inputs)


_MODULES: dict[type[Operator], Callable[..., nn.Module]] = {
    Conv: DenseConv,
    Pool: DensePool,
    Elementwise: DenseElementwise,
    ChannelNorm: DenseChannelNorm,
    ChannelSoftmax: lambda o: DenseFunction(lambda x: torch.log_softmax(x, 1) if o.log else torch.softmax(x, 1)),
    Resample: DenseResample,
    PixelShuffle: DensePixelShuffle,
    Select: DenseSelect,
    GlobalMean: lambda _: DenseFunction(lambda x: x.mean((2, 3), keepdim=True)),
    Concat: lambda _: DenseFunction(lambda *parts: torch.cat(parts, 1)),
}


def _may_change(x: Tensor) -> bool:
    """Tell whether a tensor of our own may be overwritten: not while gradients are recorded."""
    return not (torch.is_grad_enabled() and x.requires_grad)


def _plus(x: Tensor, residual: Tensor) -> Tensor:
    if _may_change(x) and not (torch.is_grad_enabled() and residual.requires_grad):
        return x.add_(residual)
    return x + residual


def _activated(activation: Activation, slope: Tensor | None, x: Tensor, *, is_ours: bool = True) -> Tensor:
    """Activate a tensor, in place where there is such a function, and the tensor is ours.

    Args:
        slope: slopes of PRELU on the tensor's device: the activation's own may be on another one.
    """
    if slope is not None:
        return functional.prelu(x, slope)
    if not (is_ours and _may_change(x)):
        return activation(x)
    if activation.kind is ActivationKind.CLAMP:
        return (
            x.relu_()
            if (activation.low, activation.high) == (0.0, float("inf"))
            else x.clamp_(activation.low, activation.high)
        )
    return _IN_PLACE.get(activation.kind, activation)(x)


def _floor_size(window: Window) -> tuple[int, int]:
    """Return the (height, width) of the output when the same padding follows the last pixel."""
    sizes = []
    for axis in (0, 1):
        reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
        sizes.append((window.in_size[axis] + 2 * window.padding[axis] - reach) // window.stride[axis] + 1)
    return sizes[0], sizes[1]


def _unusual_border(window: Window) -> tuple[int, int, int, int] | None:
    """Return the padding (left, right, top, bottom) where torch's maximum pooling does not take it; otherwise None."""
    whole = all(2 * window.padding[axis] <= window.kernel[axis] for axis in (0, 1))
    return None if whole and _floor_size(window) == window.out_size else exact_border(window)


def _border(window: Window) -> tuple[int, int, int, int] | None:
    """Return the padding (left, right, top, bottom) where it is not the same on both sides; otherwise None."""
    return None if _floor_size(window) == window.out_size else exact_border(window)
