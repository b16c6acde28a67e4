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

    def padded(self, x: Tensor, value: float, *, half: bool = False) -> tuple[Tensor, tuple[int, int]]:
        """Return the images and the (y, x) padding still to be added; uneven padding becomes an operator of its own.

        Args:
            half: whether padding of more than half of the window does too: torch's pooling does not take it.
        """
        top, left, bottom, right = self.border(x)
        is_more = 2 * top > self.kernel_shape[0] or 2 * left > self.kernel_shape[1]
        if (top, left) == (bottom, right) and not (half and is_more):
            return x, (top, left)
        return functional.pad(x, (left, right, top, bottom), value=value), (0, 0)

    def border_for(self, x: Tensor, size: Numbers, extra: Numbers) -> tuple[int, int, int, int]:
        """Return the (top, left, bottom, right) that a transposed convolution leaves out for a result of this size.

        Args:
            size: (height, width).
            extra: rows and columns that are added at the end: ``output_padding``.

        Raises:
            ModelError: the result has fewer rows or columns than that.
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
        first, last = (halves, others) if self.auto_pad == b"SAME_UPPER" else (others, halves)
        return first[0], first[1], last[0], last[1]

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
    output_shape: Numbers | None = None,
    group: int = 1,
    **sliding: Any,
) -> Tensor:
    """Compute ConvTranspose of images.

    Args:
        output_shape: the (height, width) of the result, which takes the place of ``pads``, as ``auto_pad`` does.
    """
    window = _Sliding(**sliding | {"kernel_shape": list(weight.shape[2:])})
    extra = output_padding or [0, 0]
    if output_shape is None and window.auto_pad in (b"SAME_UPPER", b"SAME_LOWER"):
        output_shape = [size * stride for size, stride in zip(x.shape[2:], window.strides, strict=True)]
    top, left, bottom, right = window.pads if output_shape is None else window.border_for(x, output_shape[-2:], extra)
    even = (top, left) == (bottom, right)
    padding = (top, left) if even else (0, 0)
    result = functional.conv_transpose2d(x, weight, bias, window.strides, padding, extra, group, window.dilations)
    return result if even else functional.pad(result, (-left, -right, -top, -bottom))


def max_pool(x: Tensor, *, ceil_mode: int = 0, storage_order: int = 0, **sliding: Any) -> Tensor:
    """Compute the first result of MaxPool of images."""
    window = _Sliding(**sliding)
    padded, padding = window.padded(x, float("-inf"), half=True)
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
    padded, padding = window.padded(x, 0.0, half=True)
    if padding == (0, 0) and any(border) and not count_include_pad:
        how = "so much" if border[:2] == border[2:] else "uneven"
        raise ModelError(
            f"the ONNX operator AveragePool with {how} padding {border} that does not count is not supported"
        )
    pooled = functional.avg_pool2d(
        padded, window.kernel_shape, window.strides, padding, bool(ceil_mode), bool(count_include_pad)
    )
    return window.of_the_image(pooled, x) if ceil_mode else pooled
