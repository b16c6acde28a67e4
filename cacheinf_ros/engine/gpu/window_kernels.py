# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sliding windows inside Triton kernels: see :class:`cacheinf_ros.graph.window.Window`."""

# What Triton compiles is not Python: types are left out.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def read_by_tap(
    pixel, tap,
    IN_HEIGHT: tl.constexpr, IN_WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    KERNEL_X: tl.constexpr,
    STRIDE_Y: tl.constexpr, STRIDE_X: tl.constexpr, DILATION_Y: tl.constexpr, DILATION_X: tl.constexpr,
    PADDING_Y: tl.constexpr, PADDING_X: tl.constexpr,
):  # fmt: skip
    """(input pixels, whether they lie inside the image) that output pixels read by a tap of a window, or by several.

    Maps of several cameras lie below one another: no window reaches from one into the next.
    """
    row = pixel // OUT_WIDTH
    y = (row % OUT_HEIGHT) * STRIDE_Y - PADDING_Y + (tap // KERNEL_X) * DILATION_Y
    x = (pixel % OUT_WIDTH) * STRIDE_X - PADDING_X + (tap % KERNEL_X) * DILATION_X
    return (row // OUT_HEIGHT * IN_HEIGHT + y) * IN_WIDTH + x, (y >= 0) & (y < IN_HEIGHT) & (x >= 0) & (x < IN_WIDTH)
