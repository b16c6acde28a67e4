# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The report of the demo: a table and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.output_files import writing

Image = NDArray[np.uint8]
_GREEN = (60, 220, 60)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """A source that was played twice: with the cache, and densely.

    Attributes:
        name: the source's name.
        mode: the mode of the cached run.
        published, results, dropped: images and results of both runs together.
        errors: the texts of results that are errors, of both runs; the other figures leave these frames out.
        reuse_ratio: the mean over the cached run.
        cached_ms, dense_ms: time for matching and computing each frame, by the nodes' own clocks, ms.
        cached_f1, dense_f1: F1 score of the detections against the truth; None where it is unknown.
        frame: one frame of the cached run, BGR.
        overlay: that frame with what was reused drawn in.
    """

    name: str
    mode: str
    published: int
    results: int
    dropped: int
    unanswered: int
    errors: tuple[str, ...]
    reuse_ratio: float
    cached_ms: NDArray[np.float64]
    dense_ms: NDArray[np.float64]
    cached_f1: float | None
    dense_f1: float | None
    frame: Image
    overlay: Image

    @property
    def speedup(self) -> float:
        """The mean dense latency over the mean cached one: a median would hide frames on which the cache expires."""
        return float(np.mean(self.dense_ms) / np.mean(self.cached_ms))


def demo_table(trials: Sequence[Trial]) -> Table:
    """Return a table with one column per trial."""
    heads = (escape(f"{trial.name}, {trial.mode}") for trial in trials)
    table = Table("", *heads, title="matching and inference in the nodes, mean per frame")
    rows: tuple[tuple[str, Callable[[Trial], str]], ...] = (
        ("frames in, both runs", lambda t: str(t.published)),
        ("results out", lambda t: str(t.results)),
        ("dropped", lambda t: str(t.dropped)),
        ("pixels reused", lambda t: f"{t.reuse_ratio:.0%}"),
        ("latency dense, ms", lambda t: f"{np.mean(t.dense_ms):.1f}"),
        ("latency cached, ms", lambda t: f"{np.mean(t.cached_ms):.1f}"),
        ("times faster", lambda t: f"{t.speedup:.1f}"),
        ("F1 dense", lambda t: _score(t.dense_f1)),
        ("F1 cached", lambda t: _score(t.cached_f1)),
    )
    for name, value in rows:
        table.add_row(name, *(value(trial) for trial in trials))
    return table


def draw_boxes(image: Image, boxes: Sequence[tuple[float, float, float, float, str]]) -> Image:
    """Return a copy of the image with boxes (x, y, width, height, label) drawn in."""
    drawn = image.copy()
    for x, y, width, height, label in boxes:
        corner, opposite = (round(x), round(y)), (round(x + width), round(y + height))
        cv2.rectangle(drawn, corner, opposite, _GREEN, 2)
        above = (corner[0], corner[1] - 4)
        cv2.putText(drawn, label, above, cv2.FONT_HERSHEY_SIMPLEX, 0.5, _GREEN, 1, cv2.LINE_AA)
    return drawn


def draw_demo(trials: Sequence[Trial], path: Path) -> None:
    """Write the picture: for each trial a frame with its detections, what was reused, and latency over time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 3.9 * len(trials)), layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subplots(len(trials), 3, squeeze=False, width_ratios=(1, 1, 1.15))
    for (left, middle, right), trial in zip(rows, trials, strict=True):
        for axes, image, title in (
            (left, trial.frame, f"{trial.name}: what the network finds"),
            (middle, trial.overlay, f"{trial.mode}: tinted is reused, {trial.reuse_ratio:.0%} on average"),
        ):
            axes.imshow(image[:, :, ::-1])
            axes.set_title(title, fontsize=11)
            axes.set_axis_off()
        for values, name, colour in ((trial.dense_ms, "dense", "#9aa0a6"), (trial.cached_ms, "cached", "#1a73e8")):
            mean_ms = float(np.mean(values))
            right.plot(values, color=colour, linewidth=1.6, label=f"{name}: mean {mean_ms:.1f} ms")
            right.axhline(mean_ms, color=colour, linewidth=0.8, linestyle=":")
        right.set_ylim(0, 1.6 * float(np.percentile(trial.dense_ms, 95)))
        right.set_xlabel("frame")
        right.set_ylabel("latency, ms")
        right.set_title(f"{trial.speedup:.1f} times faster", fontsize=11)
        right.grid(alpha=0.25)
        right.legend(loc="upper right", frameon=False)
        for side in ("top", "right"):
            right.spines[side].set_visible(False)
    with writing(path):
        figure.savefig(path, dpi=110)


def _score(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
