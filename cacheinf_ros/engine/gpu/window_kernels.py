# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sliding windows inside Triton kernels: see :class:`cacheinf_ros.graph.window.Window`."""

# What Triton compiles is not Python: types are left out.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def read_by_tap(pixel, tap, WINDOW: tl.constexpr):
    """(input pixels, whether they lie inside the image) that output pixels read by a tap of a window, or by several."""
    y = pixel // WINDOW.out_size[1] * WINDOW.stride[0] - WINDOW.padding[0]
    y = y + tap // WINDOW.kernel[1] * WINDOW.dilation[0]
    x = pixel % WINDOW.out_size[1] * WINDOW.stride[1] - WINDOW.padding[1]
    x = x + tap % WINDOW.kernel[1] * WINDOW.dilation[1]
    inside = (y >= 0) & (y < WINDOW.in_size[0]) & (x >= 0) & (x < WINDOW.in_size[1])
    return y * WINDOW.in_size[1] + x, inside
