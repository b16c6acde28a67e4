# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plots of DeepCache's figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.deepcache.layer_rules import Stage

_UNITS = ("_ms", "_us", "ms", "joules_per_frame", "all", "convolutions", "top1", "top3")
_MOST_LABELS = 24
_WIDEST = 14.0  # inches


def plot_rows(rows: Sequence[dict[str, Any]], title: str, path: Path) -> None:
    """Draw what was measured: a group of bars for each row.

    Raises:
        ValueError: nothing in the rows is a measurement.
    """
    from matplotlib.figure import Figure

    measured = [key for key in rows[0] if key.endswith(_UNITS)]
    if not measured:
        raise ValueError(f"{title}: nothing to draw")
    names = [
        " ".join(str(v) for k, v in row.items() if isinstance(v, (str, int)) and k not in measured) for row in rows
    ]
    figure = Figure(figsize=(min(_WIDEST, max(5.2, 0.28 * len(rows) * len(measured))), 4.0), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(measured)
    for i, key in enumerate(measured):
        axes.bar([n + i * width for n in range(len(rows))], [row[key] for row in rows], width, label=key)
    step = -(-len(rows) // _MOST_LABELS)
    axes.set_xticks(range(0, len(rows), step), names[::step], rotation=60, ha="right", fontsize="x-small")
    axes.set_title(title)
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def plot_stages(stages: Sequence[Stage], path: Path) -> None:
    """Draw figure 8: the reusable rectangle of each map, and where it was on the frame before."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(4.2 * len(stages), 4.6), layout="constrained")
    for axes, stage in zip(figure.subplots(1, len(stages)), stages, strict=True):
        for (x, y, width, height), colour, label in (
            (stage.copied_from, "#9aa0a6", "frame before"),
            (stage.reusable, "#1a73e8", "this frame"),
        ):
            axes.add_patch(Rectangle((x, y), width, height, alpha=0.5, color=colour, label=label))
        axes.set(title=stage.name.partition(" (")[0], xlim=(0, stage.side), ylim=(stage.side, 0), aspect="equal")
        axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
