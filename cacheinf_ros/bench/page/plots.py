# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The plot of time against loss of each way, as a PNG file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_GREY, _BLUE, _ORANGE, _RED = "#9aa0a6", "#1a73e8", "#e8710a", "#d93025"
_LABELS = ((5, 6), (5, -13), (5, 17), (5, -24))  # points beside a dot, in turn: neighbours in time are often so in loss
_WIDTH = 5.2  # inches: narrow enough for letters that can be read on a phone
_DOTS_PER_INCH = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A way in the plot of time against loss.

    Attributes:
        name: beside the point.
        mean_ms: per frame.
        loss: at least 0.
        is_ours: whether a cache is used.
        is_chosen: whether it stands out.
    """

    name: str
    mean_ms: float
    loss: float
    is_ours: bool
    is_chosen: bool = False


def draw_pareto(points: Sequence[Point], front: Sequence[Point]) -> bytes:
    """Draw time against loss of each way; a line joins those that no other beats in both, ``front``."""
    figure, axes = _figure(3.8)
    axes.plot([p.mean_ms for p in front], [p.loss for p in front], color=_GREY, linewidth=1, linestyle=":", zorder=1)
    for ours, colour, label in ((True, _BLUE, "with a cache"), (False, _ORANGE, "without")):
        some = [point for point in points if point.is_ours is ours]
        axes.scatter([p.mean_ms for p in some], [p.loss for p in some], color=colour, s=30, label=label, zorder=2)
    for number, point in enumerate(sorted(points, key=lambda point: point.mean_ms)):
        if point.is_chosen:
            axes.scatter([point.mean_ms], [point.loss], s=190, facecolors="none", edgecolors=_RED, linewidths=1.6)
        place = (point.mean_ms, point.loss)
        colour = _RED if point.is_chosen else "black"
        axes.annotate(
            point.name,
            place,
            xytext=_LABELS[number % len(_LABELS)],
            textcoords="offset points",
            fontsize=8,
            color=colour,
        )
    most = max([0.005, *(point.loss for point in points)])
    axes.set_xlabel("ms per frame of the camera")
    axes.set_ylabel("loss")
    axes.set_xlim(0, 1.25 * max(point.mean_ms for point in points))
    axes.set_ylim(-0.15 * most, 1.2 * most)
    axes.legend(loc="upper right", frameon=False, fontsize=9)
    return _png(figure)


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """The ways that no other beats in both time and loss, the fastest first."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.mean_ms, point.loss)):
        if not front or point.loss < front[-1].loss:
            front.append(point)
    return front


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
    return buffer.getvalue()
