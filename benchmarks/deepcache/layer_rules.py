# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Table 2 and figure 8: how a layer shrinks a reusable rectangle, by the paper's rules and by this engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.deepcache.published import PROPAGATED
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.graph.window import Window

Rectangle = tuple[int, int, int, int]  # x, y, width, height
REGION: Rectangle = (100, 100, 100, 40)
"""The reusable rectangle of figure 8, in a picture of 227 x 227."""
_BEFORE: Rectangle = (120, 120, 100, 40)
_SIDE = 227


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding:
    """A layer with a sliding window: a convolution, a pooling, or normalisation within a channel."""

    name: str
    kernel: int
    stride: int = 1
    padding: int = 0

    def by_rule(self, region: Rectangle) -> Rectangle:
        """Return what table 2 leaves reusable, plus one pixel per direction, without which figure 8's example fails."""
        first = [-(-(start + self.padding) // self.stride) for start in region[:2]]
        sides = [(side - self.kernel) // self.stride + 1 for side in region[2:]]
        return first[0], first[1], sides[0], sides[1]

    def by_engine(self, region: Rectangle, side: int = _SIDE) -> Rectangle:
        """Return the rectangle of outputs that, by this engine, read nothing but the region."""
        out = (side + 2 * self.padding - self.kernel) // self.stride + 1
        table = TapTable.of_window(
            Window(in_size=(side, side), out_size=(out, out), kernel=(self.kernel,) * 2, stride=(self.stride,) * 2,
                   padding=(self.padding,) * 2)
        )  # fmt: skip
        x, width = _inside(table.columns, region[0], region[2])
        y, height = _inside(table.rows, region[1], region[3])
        return x, y, width, height


LAYERS = (
    Sliding(name="convolution 11, stride 2, padding 5 (figure 8)", kernel=11, stride=2, padding=5),
    Sliding(name="pooling 3, stride 2, padding 1", kernel=3, stride=2, padding=1),
    Sliding(name="LRN within a channel, radius 2", kernel=5, padding=2),
    Sliding(name="LRN across channels", kernel=1),
    Sliding(name="others (activations)", kernel=1),
)
"""The layers of table 2 that are compared; for the others the paper and this engine agree.

A fully connected layer and softmax leave nothing reusable, and a concatenation what is reusable in all its inputs.
"""


def rules() -> list[dict[str, Any]]:
    """Compute table 2: the rectangle (x, y, width, height) of :data:`REGION` that each layer leaves reusable."""
    return [
        {"layer": layer.name, "paper": str(_paper(layer)), "ours": str(layer.by_engine(REGION))} for layer in LAYERS
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A feature map of figure 8's example: the frame, or a layer's output.

    Attributes:
        side: the map's side, in pixels.
        reusable: the map's reusable rectangle.
        copied_from: where that rectangle was on the frame before.
    """

    name: str
    side: int
    reusable: Rectangle
    copied_from: Rectangle


def example() -> list[Stage]:
    """Compute figure 8: the frame, and the maps after convolution and pooling; the activation changes nothing."""
    stages = [Stage(name="frame", side=_SIDE, reusable=REGION, copied_from=_BEFORE)]
    for layer in LAYERS[:2]:
        last = stages[-1]
        stages.append(
            Stage(
                name=layer.name,
                side=(last.side + 2 * layer.padding - layer.kernel) // layer.stride + 1,
                reusable=layer.by_engine(last.reusable, last.side),
                copied_from=layer.by_engine(last.copied_from, last.side),
            )
        )
    return stages


def propagated() -> list[dict[str, Any]]:
    """List figure 8's rectangle after each layer of its example, with its place on the frame before."""
    return [
        {
            "behind": stage.name,
            "paper": None if theirs is None else str(theirs),
            "reusable": str(stage.reusable),
            "copied from": str(stage.copied_from),
        }
        for stage, theirs in zip(example()[1:], PROPAGATED, strict=True)
    ]


def _paper(layer: Sliding) -> Rectangle:
    """Return the rectangle by the paper's only rule for normalisation, which assumes that it is within a channel."""
    if layer.name != "LRN across channels":
        return layer.by_rule(REGION)
    return Sliding(name="", kernel=5, padding=2).by_rule(REGION)


def _inside(taps: NDArray[np.int32], start: int, length: int) -> tuple[int, int]:
    """Return the first index and the number of the outputs that read from start..start + length only."""
    found = np.flatnonzero(((taps >= start) & (taps < start + length)).all(axis=1))
    return (int(found[0]), len(found)) if len(found) else (0, 0)
