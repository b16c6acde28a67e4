# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Translate the ONNX operators with sliding windows, and resizing, to torch calls, as in :mod:`onnx_operators`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

from cacheinf_ros.errors import ModelError

Tensor = torch.Tensor
Numbers = list[int]
Calls = dict[int, Callable[..., Tensor]]
"""torch's functions for windows, by the number of axes."""


_CONVOLUTIONS: Calls = {2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED: Calls = {2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
_MAXIMA: Calls = {2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGES: Calls = {2: functional.avg_pool2d, 3: functional.avg_pool3d}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sliding:
    """How a window slides over images or volumes: the attributes that these operators share, by their ONNX names.

    Axes are ordered as in tensors, (y, x) or (z, y, x).
    """

    kernel_shape: Numbers
    strides: Numbers = field(default_factory=list)
    pads: Numbers = field(default_factory=list)
    dilations: Numbers = field(default_factory=list)
    auto_pad: bytes = b"NOTSET"

    def __post_init__(self) -> None:
        axes = len(self.kernel_shape)
        for name, usual in (("strides", [1] * axes), ("pads", [0] * 2 * axes), ("dilations", [1] * axes)):
            object.__setattr__(self, name, getattr(self, name) or usual)

    def call(self, calls: Calls, operator: str) -> Callable[..., Tensor]:
        """Return the function for so many axes; raises :class:`ModelError` where there is none."""
        axes = len(self.kernel_shape)
        if axes not in calls:
            raise ModelError(f"the ONNX operator {operator} with {axes} axes is not supported: only with two or three")
        return calls[axes]

    def border(self, x: Tensor) -> tuple[Numbers, Numbers]:
        """Return the padding before and after each axis."""
        if self.auto_pad in (b"NOTSET", b"VALID"):
            axes = len(self.kernel_shape)
            return self.pads[:axes], self.pads[axes:]
        before, after = [], []
        for size, window, stride, dilation in zip(
            x.shape[2:], self.kernel_shape, self.strides, self.dilations, strict=True
        ):
            total = max(0, (-(size // -stride) - 1) * stride + dilation * (window - 1) + 1 - size)
            larger = total - total // 2
            before.append(larger if self.auto_pad == b"SAME_LOWER" else total - larger)
            after.append(total - before[-1])
        return before, after

    def padded(self, x: Tensor, value: float, *, half: bool = False) -> tuple[Tensor, Numbers]:
        """Return the images and the padding still to be added; uneven padding becomes an operator of its own.

        Args:
            half: whether padding of more than half of the window does too: torch's pooling does not take it.
        """
        before, after = self.border(x)
        is_more = any(2 * first > window for first, window in zip(before, self.kernel_shape, strict=True))
        if before == after and not (half and is_more):
            return x, before
        return functional.pad(x, _amounts(before, after), value=value), [0] * len(before)

    def border_for(self, x: Tensor, size: Numbers, extra: Numbers) -> tuple[Numbers, Numbers]:
        """Return what a transposed convolution leaves out before and after each axis for a result of this size.

        Args:
            extra: what is added at the end of each axis: ``output_padding``.

        Raises:
            ModelError: the result is smaller than that.
        """
        total = [
            stride * (before - 1) + more + dilation * (window - 1) + 1 - after
            for before, after, more, window, stride, dilation in zip(
                x.shape[2:], size, extra, self.kernel_shape, self.strides, self.dilations, strict=True
            )
        ]
        if min(total) < 0:
            raise ModelError(
                f"the ONNX operator ConvTranspose to {size}, larger than what it computes, is not supported"
            )
        halves = [each // 2 for each in total]
        others = [each - half for each, half in zip(total, halves, strict=True)]
        return (halves, others) if self.auto_pad == b"SAME_UPPER" else (others, halves)

    def of_the_image(self, pooled: Tensor, x: Tensor) -> Tensor:
        """Leave out windows that begin behind the image: torch takes padding that was added before for a part of it."""
        before, _ = self.border(x)
        counts = [
            min(count, (size + first - 1) // stride + 1)
            for count, size, first, stride in zip(pooled.shape[2:], x.shape[2:], before, self.strides, strict=True)
        ]
        for axis, (count, most) in enumerate(zip(counts, pooled.shape[2:], strict=True), 2):
            pooled = pooled if count == most else pooled.narrow(axis, 0, count)
        return pooled


def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, group: int = 1, **sliding: Any) -> Tensor:
    """Compute Conv of images or volumes."""
    window = _Sliding(**sliding | {"kernel_shape": list(weight.shape[2:])})
    call = window.call(_CONVOLUTIONS, "Conv")
    x, padding = window.padded(x, 0.0)
    return call(x, weight, bias, window.strides, padding, window.dilations, group)


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    output_padding: Numbers | None = None,
    output_shape: Numbers | None = None,
    group: int = 1,
    **sliding: Any,
) -> Tensor:
    """Compute ConvTranspose of images or volumes.

    Args:
        output_shape: the size of the result, which takes the place of ``pads``, as ``auto_pad`` does.
    """
    window = _Sliding(**sliding | {"kernel_shape": list(weight.shape[2:])})
    call, axes = window.call(_TRANSPOSED, "ConvTranspose"), len(window.kernel_shape)
    extra = output_padding or [0] * axes
    if output_shape is None and window.auto_pad in (b"SAME_UPPER", b"SAME_LOWER"):
        output_shape = [size * stride for size, stride in zip(x.shape[2:], window.strides, strict=True)]
    before, after = window.pads[:axes], window.pads[axes:]
    if output_shape is not None:
        before, after = window.border_for(x, output_shape[-axes:], extra)
    even = before == after
    padding = before if even else [0] * axes
    result = call(x, weight, bias, window.strides, padding, extra, group, window.dilations)
    return result if even else functional.pad(result, [-each for each in _amounts(before, after)])


def max_pool(x: Tensor, *, ceil_mode: int = 0, storage_order: int = 0, **sliding: Any) -> Tensor:
    """Compute the first result of MaxPool of images or volumes."""
    window = _Sliding(**sliding)
    call = window.call(_MAXIMA, "MaxPool")
    padded, padding = window.padded(x, float("-inf"), half=True)
    pooled = call(padded, window.kernel_shape, window.strides, padding, window.dilations, bool(ceil_mode))
    return window.of_the_image(pooled, x) if ceil_mode else pooled


def average_pool(x: Tensor, *, ceil_mode: int = 0, count_include_pad: int = 0, **sliding: Any) -> Tensor:
    """Compute AveragePool of images or volumes.

    Raises:
        ModelError: it has dilations, or uneven padding that does not count.
    """
    window = _Sliding(**sliding)
    call = window.call(_AVERAGES, "AveragePool")
    if set(window.dilations) != {1}:
        raise ModelError(f"the ONNX operator AveragePool with dilations {window.dilations} is not supported")
    before, after = window.border(x)
    padded, padding = window.padded(x, 0.0, half=True)
    if not any(padding) and any(before + after) and not count_include_pad:
        how = "so much" if before == after else "uneven"
        border = (*before, *after)
        raise ModelError(
            f"the ONNX operator AveragePool with {how} padding {border} that does not count is not supported"
        )
    pooled = call(padded, window.kernel_shape, window.strides, padding, bool(ceil_mode), bool(count_include_pad))
    return window.of_the_image(pooled, x) if ceil_mode else pooled


def _amounts(before: Numbers, after: Numbers) -> Numbers:
    """Return padding in torch's order: before and after the last axis, then those of the one before it."""
    return [each for pair in zip(before[::-1], after[::-1], strict=True) for each in pair]
