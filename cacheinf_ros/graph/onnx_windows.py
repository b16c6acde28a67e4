# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Translate the ONNX operators with sliding windows, and resizing, to torch calls, as in :mod:`onnx_operators`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

from cacheinf_ros.errors import ModelError

Tensor = torch.Tensor
Numbers = list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sliding:
    """How a window slides over images: the attributes that these operators share, by their ONNX names; (y, x)."""

    kernel_shape: Numbers
    strides: Numbers = field(default_factory=lambda: [1, 1])
    pads: Numbers = field(default_factory=lambda: [0, 0, 0, 0])
    dilations: Numbers = field(default_factory=lambda: [1, 1])
    auto_pad: bytes = b"NOTSET"

    def border(self, x: Tensor) -> tuple[int, int, int, int]:
        """Return the padding of images, (top, left, bottom, right)."""
        if self.auto_pad in (b"NOTSET", b"VALID"):
            top, left, bottom, right = self.pads
            return top, left, bottom, right
        before, after = [], []
        for size, window, stride, dilation in zip(
            x.shape[2:], self.kernel_shape, self.strides, self.dilations, strict=True
        ):
            total = max(0, (-(size // -stride) - 1) * stride + dilation * (window - 1) + 1 - size)
            larger = total - total // 2
            before.append(larger if self.auto_pad == b"SAME_LOWER" else total - larger)
            after.append(total - before[-1])
        return before[0], before[1], after[0], after[1]

    def padded(self, x: Tensor, value: float) -> tuple[Tensor, tuple[int, int]]:
        """Return the images and the (y, x) padding still to be added; uneven padding becomes an operator of its own."""
        top, left, bottom, right = self.border(x)
        if (top, left) == (bottom, right):
            return x, (top, left)
        return functional.pad(x, (left, right, top, bottom), value=value), (0, 0)

    def of_the_image(self, pooled: Tensor, x: Tensor) -> Tensor:
        """Leave out windows that begin behind the image: torch takes padding that was added before for a part of it."""
        before = self.border(x)[:2]
        counts = [
            min(count, (size + first - 1) // stride + 1)
            for count, size, first, stride in zip(pooled.shape[2:], x.shape[2:], before, self.strides, strict=True)
        ]
        return pooled if counts == list(pooled.shape[2:]) else pooled[:, :, : counts[0], : counts[1]]


def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, group: int = 1, **sliding: Any) -> Tensor:
    """Compute Conv of images."""
    window = _Sliding(**sliding | {"kernel_shape": list(weight.shape[2:])})
    x, padding = window.padded(x, 0.0)
    return functional.conv2d(x, weight, bias, window.strides, padding, window.dilations, group)


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    output_padding: Numbers | None = None,
    group: int = 1,
    **sliding: Any,
) -> Tensor:
    """Compute ConvTranspose of images; raises :class:`ModelError` for ``auto_pad`` to the same size."""
    window = _Sliding(**sliding | {"kernel_shape": list(weight.shape[2:])})
    if window.auto_pad not in (b"NOTSET", b"VALID"):
        raise ModelError(f"the ONNX operator ConvTranspose with auto_pad {window.auto_pad.decode()} is not supported")
    top, left, bottom, right = window.pads
    even = (top, left) == (bottom, right)
    padding, extra = (top, left) if even else (0, 0), output_padding or [0, 0]
    result = functional.conv_transpose2d(x, weight, bias, window.strides, padding, extra, group, window.dilations)
    return result if even else functional.pad(result, (-left, -right, -top, -bottom))


def max_pool(x: Tensor, *, ceil_mode: int = 0, storage_order: int = 0, **sliding: Any) -> Tensor:
    """Compute the first result of MaxPool of images."""
    window = _Sliding(**sliding)
    padded, padding = window.padded(x, float("-inf"))
    pooled = functional.max_pool2d(
        padded, window.kernel_shape, window.strides, padding, window.dilations, bool(ceil_mode)
    )
    return window.of_the_image(pooled, x) if ceil_mode else pooled


def average_pool(x: Tensor, *, ceil_mode: int = 0, count_include_pad: int = 0, **sliding: Any) -> Tensor:
    """Compute AveragePool of images; raises :class:`ModelError` for dilations, or uneven padding that is left out."""
    window = _Sliding(**sliding)
    if window.dilations != [1, 1]:
        raise ModelError(f"the ONNX operator AveragePool with dilations {window.dilations} is not supported")
    border = window.border(x)
    padded, padding = window.padded(x, 0.0)
    if padding == (0, 0) and any(border) and not count_include_pad:
        raise ModelError(
            f"the ONNX operator AveragePool with uneven padding {border} that does not count is not supported"
        )
    pooled = functional.avg_pool2d(
        padded, window.kernel_shape, window.strides, padding, bool(ceil_mode), bool(count_include_pad)
    )
    return window.of_the_image(pooled, x) if ceil_mode else pooled
