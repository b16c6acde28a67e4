# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Computes which lines of its inputs an operator reads in order to compute some lines of its output."""

from __future__ import annotations

from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph import Window
from cacheinf_ros.graph.ir import Conv, Operator, PixelShuffle, Pool, Resample


def lines_read(layout: Layout, operator: Operator, position: int, lines: range) -> range:
    """Return the lines of one input from the first that the operator reads to the last.

    Args:
        position: which of the operator's inputs.
        lines: the lines of the output that are computed; there is at least one.
    """
    height = layout.spec(operator.inputs[position]).size[0]
    if position > 0:  # an operand that is added or multiplied, pixel by pixel or one pixel for all
        return range(1) if height == 1 else lines
    match operator:
        case Conv() | Pool():
            return _under_window(operator.window, lines)
        case Resample():
            index = operator.rows.index[lines.start : lines.stop]
            inside = index[index >= 0]  # a tap of weight 0 is read too
            return range(int(inside.min()), int(inside.max()) + 1) if len(inside) else range(0)
        case PixelShuffle():
            return range(lines.start // operator.factor, (lines.stop - 1) // operator.factor + 1)
    return range(1) if height == 1 else lines


def _under_window(window: Window, lines: range) -> range:
    height, stride, padding = window.in_size[0], window.stride[0], window.padding[0]
    reach = window.dilation[0] * (window.kernel[0] - 1)
    first, last = lines.start * stride - padding, (lines.stop - 1) * stride - padding + reach
    first = min(max(first, 0), height)
    return range(first, max(first, min(last + 1, height)))
