# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for resizing and padding, with the arguments of each operator's schema, in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cacheinf_ros.graph.ir import Resample
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.channelwise import pad_channels
from cacheinf_ros.graph.lowering.view import View
from cacheinf_ros.graph.make_taps import resized_taps, taps_at
from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps

aten = torch.ops.aten

Resize = Callable[..., torch.Tensor]


def resize(call: Resize, *, by_axis: bool) -> Callable[..., View]:
    """Return the rule for a function that resizes.

    Args:
        call: the function in the form (image, size, [align_corners,] factor_y, factor_x).
        by_axis: whether the rule is for that form itself, otherwise for the one that takes both factors as a list.
    """

    def rule(b: Builder, x: View, size: Any, *options: Any) -> View:
        corners = options[: -2 if by_axis else -1]
        factors = options[-2:] if by_axis else options[-1] or (None, None)
        return _resized(b, x, call, corners, *factors)

    return rule


def _resized(
    b: Builder, x: View, call: Resize, corners: tuple[bool, ...], factor_y: float | None, factor_x: float | None
) -> View:
    """Resize along one axis after the other, which gives the same: these functions are separable."""
    if x.numel == x.shape[1]:  # one pixel stays what it is
        return x.expanded(b.shape)
    image = b.image(x)
    axes = []
    for in_size, out_size, factor in zip(image.source.size, b.shape[2:], (factor_y, factor_x), strict=True):
        axes.append(resized_axis(call, corners, in_size, out_size, factor))
    return b.emit(Resample, (image,), b.shape, rows=axes[0], columns=axes[1])


def resized_axis(
    call: Resize, corners: tuple[bool, ...], in_size: int, out_size: int, factor: float | None
) -> AxisTaps:
    """Return the taps along one axis of a function that resizes; ``factor``: by how much, None: by the sizes."""
    return resized_taps(lambda columns: call(columns, [out_size, 2], *corners, factor, None), in_size)


def pad(b: Builder, x: View, amounts: Any, mode: str = "constant", value: float | None = None) -> View:
    """Lower aten.pad of height and width, in any mode, or of channels by a constant; negative amounts crop."""
    if not any(amounts):
        return x
    if any(amounts[4:]):
        if mode != "constant" or any(amounts[:4]) or any(amounts[6:]) or min(amounts) < 0:
            raise NotLocal
        before, after = amounts[4:6]
        return pad_channels(b, x, before, after, float(value or 0.0))
    image = b.image(x)
    left, right, top, bottom = (*amounts[:4], 0, 0)[:4]
    height, width = image.source.size
    rows, columns = _padded(height, top, bottom, mode), _padded(width, left, right, mode)
    shape = (*image.shape[:2], rows.out_size, columns.out_size)
    return b.emit(Resample, (image,), shape, rows=rows, columns=columns, fill=float(value or 0.0))


def constant_pad(b: Builder, x: View, amounts: Any, value: float) -> View:
    """Lower aten.constant_pad_nd."""
    return pad(b, x, amounts, "constant", value)


def pad_in_mode(mode: str) -> Callable[[Builder, View, Any], View]:
    """Return the rule for aten.reflection_pad2d and its like, by the mode of aten.pad."""
    return lambda b, x, amounts: pad(b, x, amounts, mode)


def _padded(size: int, before: int, after: int, mode: str) -> AxisTaps:
    positions = torch.arange(size).view(1, 1, size, 1)
    value = OUTSIDE if mode == "constant" else None
    return taps_at(aten.pad.default(positions, [0, 0, before, after], mode, value).flatten(), size)
