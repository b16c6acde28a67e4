# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How far the pixels of an operator's output reach into its inputs, and back."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.execution.active import Size
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph import Window
from cacheinf_ros.graph.ir import Conv, Operator, PixelShuffle, Pool, Resample

Footprint = Window | TapTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccessPattern:
    """Where an operator reads its first input, if not at the very pixels of the output that it computes.

    Operators without an access pattern read all inputs where the output is computed; those that have one read their
    further inputs so.

    Attributes:
        forward: the input pixels that each output pixel reads.
        back: the output pixels that read each input pixel.
    """

    forward: Footprint
    back: Footprint


def access_patterns(layout: Layout) -> dict[str, AccessPattern]:
    """Return, by output, the patterns of the operators that read other pixels than they write.

    Equal patterns are the same object.
    """
    found: dict[object, AccessPattern] = {}
    result = {}
    for operator in layout.operators:
        footprint = _forward(operator, layout)
        if footprint is None:
            continue
        key = footprint if isinstance(footprint, Window) else _contents(footprint)
        in_size = layout.spec(operator.inputs[0]).size
        if (key, in_size) not in found:
            found[key, in_size] = AccessPattern(forward=footprint, back=inverse(footprint, in_size))
        result[operator.output] = found[key, in_size]
    return result


def _contents(table: TapTable) -> tuple[object, ...]:
    return table.rows.shape, table.rows.tobytes(), table.columns.shape, table.columns.tobytes()


def _forward(operator: Operator, layout: Layout) -> Footprint | None:
    if isinstance(operator, (Conv, Pool)):
        return None if operator.window.is_pointwise else operator.window
    if isinstance(operator, Resample):
        return TapTable.of_taps(operator.rows, operator.columns)
    if isinstance(operator, PixelShuffle):
        return TapTable.of_shuffle(layout.spec(operator.inputs[0]).size, operator.factor)
    return None


def inverse(footprint: Footprint, in_size: Size) -> Footprint:
    """Return which output pixels read each input pixel; ``in_size``: the input map's (height, width)."""
    if isinstance(footprint, TapTable):
        return footprint.inverse(in_size)
    if footprint.stride == (1, 1):
        return _mirrored(footprint)
    return TapTable.of_window(footprint).inverse(in_size)


def _mirrored(window: Window) -> Window:
    """Return, for a window at stride 1, the window over its output that reads each input pixel."""
    kernel, dilation, padding = window.kernel, window.dilation, window.padding
    return Window(
        in_size=window.out_size,
        out_size=window.in_size,
        kernel=kernel,
        dilation=dilation,
        padding=(dilation[0] * (kernel[0] - 1) - padding[0], dilation[1] * (kernel[1] - 1) - padding[1]),
    )
