# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The plot of time against loss of each way, as a PNG file."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_GREY, _BLUE, _ORANGE, _RED = "#9aa0a6", "#1a73e8", "#e8710a", "#d93025"
_LABELS = (
    (7, 0, "left"), (0, 10, "center"), (0, -10, "center"), (-7, 0, "right"), *(
        (side * 9, up * distance, "left" if side > 0 else "right")
        for distance in (14, 25, 36, 47) for up in (1, -1) for side in (1, -1)
    ),
)  # fmt: skip
"""The places for a name beside its dot, best first: points to the right and up, and which end of the text is there."""
_NEAR = 10  # points up or down: beyond that, a line leads from the name to the dot
_DOT, _RING = 7, 9  # pixels around a dot, and around the chosen one, that no name should cover
_WIDTH = 5.2  # inches: narrow enough that letters are readable on a phone
_DOTS_PER_INCH = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A way in the plot of time against loss.

    Attributes:
        name: the text beside the point.
        mean_ms: mean time per frame.
        loss: the loss, at least 0.
        is_ours: whether a cache is used.
        is_chosen: whether the point is highlighted.
    """

    name: str
    mean_ms: float
    loss: float
    is_ours: bool
    is_chosen: bool = False


def draw_pareto(points: Sequence[Point], front: Sequence[Point]) -> bytes:
    """Draw time against loss of each way as PNG; a line joins ``front``, the ways that no other beats in both."""
    figure, axes = _figure(3.8)
    axes.plot([p.mean_ms for p in front], [p.loss for p in front], color=_GREY, linewidth=1, linestyle=":", zorder=1)
    for ours, colour, label in ((True, _BLUE, "with a cache"), (False, _ORANGE, "without")):
        some = [point for point in points if point.is_ours is ours]
        axes.scatter([p.mean_ms for p in some], [p.loss for p in some], color=colour, s=30, label=label, zorder=2)
    for point in points:
        if point.is_chosen:
            axes.scatter([point.mean_ms], [point.loss], s=190, facecolors="none", edgecolors=_RED, linewidths=1.6)
    most = max([0.005, *(point.loss for point in points)])
    axes.set_xlabel("ms per frame of the camera")
    axes.set_ylabel("loss")
    axes.set_xlim(0, 1.25 * max(point.mean_ms for point in points))
    axes.set_ylim(-0.15 * most, 1.2 * most)
    legend = axes.legend(loc="upper right", frameon=False, fontsize=9)
    figure.draw_without_rendering()  # computes the layout, which placing names needs
    _write_names(axes, points, taken=[legend.get_window_extent()])
    return _png(figure)


def _write_names(axes: Any, points: Sequence[Point], taken: list[Any]) -> None:
    """Write each way's name beside its dot where it covers least; ``taken``: boxes in pixels to keep free."""
    from matplotlib.transforms import Bbox

    centres = axes.transData.transform([(point.mean_ms, point.loss) for point in points])
    for point, centre in zip(points, centres, strict=True):
        radius = _RING if point.is_chosen else _DOT
        taken = [*taken, Bbox([centre - radius, centre + radius])]
    for point in sorted(points, key=lambda point: point.mean_ms):
        best_place, best_box, least = _LABELS[0], axes.bbox, math.inf
        for place in _LABELS:
            tried = _name_at(axes, point, place)
            box = tried.get_window_extent()
            tried.remove()
            covered = box.width * box.height - _shared(box, axes.bbox) + sum(_shared(box, each) for each in taken)
            if covered < least:
                best_place, best_box, least = place, box, covered
        _name_at(axes, point, best_place, has_line=abs(best_place[1]) > _NEAR)
        taken.append(best_box)


def _name_at(axes: Any, point: Point, place: tuple[int, int, str], *, has_line: bool = False) -> Any:
    right, up, end = place
    line = {"arrowstyle": "-", "color": _GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
    return axes.annotate(
        point.name,
        (point.mean_ms, point.loss),
        xytext=(right, up),
        textcoords="offset points",
        horizontalalignment=end,
        verticalalignment="center",
        fontsize=8,
        color=_RED if point.is_chosen else "black",
        arrowprops=line if has_line else None,
        in_layout=False,
    )


def _shared(one: Any, other: Any) -> float:
    """Return the area that two boxes have in common, in square pixels."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(width, 0.0) * max(height, 0.0))


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Return the ways that no other beats in both time and loss, the fastest first."""
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
