# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Find out how much of the input an output pixel depends on, which decides how far a change propagates."""

from __future__ import annotations

import torch

from cacheinf_ros.graph.ir import Conv, Global, GlobalMean, Graph, Operator, PixelShuffle, Pool, Resample, TensorSpec
from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps
from cacheinf_ros.graph.window import Pair, Window

Box = tuple[Pair, Pair]
"""A rectangle of pixels: (first row, last row), (first column, last column)."""


def receptive_field(graph: Graph, output: str) -> Pair:
    """Return (height, width) in pixels of the part of the input that the middle pixel of a tensor depends on.

    That is never more than the image, and an upper bound where the image cuts windows off.

    Args:
        output: name of a tensor of the graph. One that is no feature map counts as one pixel.
    """
    height, width = _size(graph.tensors[output])
    boxes: dict[str, Box] = {output: ((height // 2, height // 2), (width // 2, width // 2))}
    for operator in reversed(graph.operators):
        box = boxes.pop(operator.output, None)
        if box is None:
            continue
        for position, name in enumerate(operator.inputs):
            needed = _needed(operator, position, box, graph.tensors[name])
            boxes[name] = _united(boxes.get(name, needed), needed)
    (top, bottom), (left, right) = boxes.get(graph.input, ((0, -1), (0, -1)))
    return bottom - top + 1, right - left + 1


def _needed(operator: Operator, position: int, box: Box, source: TensorSpec) -> Box:
    """Return the box of an input that a box of the output is computed from."""
    if isinstance(operator, (Global, GlobalMean)) or _size(source) == (1, 1):
        height, width = _size(source)
        return (0, height - 1), (0, width - 1)
    if isinstance(operator, (Conv, Pool)) and position == 0:
        return _through_window(operator.window, 0, box[0]), _through_window(operator.window, 1, box[1])
    if isinstance(operator, Resample):
        return _through_taps(operator.rows, box[0]), _through_taps(operator.columns, box[1])
    if isinstance(operator, PixelShuffle):
        (top, bottom), (left, right) = box
        return (top // operator.factor, bottom // operator.factor), (left // operator.factor, right // operator.factor)
    return box


def _through_window(window: Window, axis: int, span: Pair) -> Pair:
    first = span[0] * window.stride[axis] - window.padding[axis]
    last = span[1] * window.stride[axis] - window.padding[axis] + window.dilation[axis] * (window.kernel[axis] - 1)
    return max(first, 0), min(last, window.in_size[axis] - 1)


def _through_taps(taps: AxisTaps, span: Pair) -> Pair:
    used = taps.index[span[0] : span[1] + 1]
    inside = used[used != OUTSIDE]
    if not len(inside):
        return 0, 0  # nothing but padding
    return int(torch.min(inside)), int(torch.max(inside))


def _united(first: Box, second: Box) -> Box:
    (top, bottom), (left, right) = ((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(first, second, strict=True))
    return (top, bottom), (left, right)


def _size(tensor: TensorSpec) -> Pair:
    return tensor.size if tensor.is_map else (1, 1)
