# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sliding windows over images."""

from __future__ import annotations

from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window that slides over an image; every pair is (y, x).

    Attributes:
        padding: pixels added before the first one; how many follow the last one results from ``out_size``.
    """

    in_size: Pair
    out_size: Pair
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Pair = (0, 0)

    @property
    def is_pointwise(self) -> bool:
        """Whether output pixel i depends on input pixel i alone, of a map of the same size."""
        is_one_tap = self.kernel == (1, 1) and self.stride == (1, 1) and self.padding == (0, 0)
        return is_one_tap and self.in_size == self.out_size


def exact_border(window: Window) -> tuple[int, int, int, int]:
    """Return the padding (left, right, top, bottom) for exactly ``out_size`` outputs; where negative, it crops."""
    amounts: list[int] = []
    for axis in (1, 0):
        reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
        needed = (window.out_size[axis] - 1) * window.stride[axis] + reach
        amounts += [window.padding[axis], needed - window.in_size[axis] - window.padding[axis]]
    return amounts[0], amounts[1], amounts[2], amounts[3]
