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
    """Tells where an operator reads its first input: by default, as it reads the others, where the output is computed.

    Attributes:
        forward: which input pixels each output pixel reads.
        back: which output pixels each input pixel is read by.
    """

    forward: Footprint
    back: Footprint


def access_patterns(layout: Layout) -> dict[str, AccessPattern]:
    """Describe, by output, the operators that read other pixels than they write. Equal ones are the same object."""
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
    """Which outputs each input, of a map of (height, width), is read by."""
    if isinstance(footprint, TapTable):
        return footprint.inverse(in_size)
    if footprint.stride == (1, 1):
        return _mirrored(footprint)
    return TapTable.of_window(footprint).inverse(in_size)


def _mirrored(window: Window) -> Window:
    """What reads the outputs of a window at stride 1 that an input is part of."""
    kernel, dilation, padding = window.kernel, window.dilation, window.padding
    return Window(
        in_size=window.out_size,
        out_size=window.in_size,
        kernel=kernel,
        dilation=dilation,
        padding=(dilation[0] * (kernel[0] - 1) - padding[0], dilation[1] * (kernel[1] - 1) - padding[1]),
    )
