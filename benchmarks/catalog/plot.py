# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Pictures of ``cacheinf bench catalog``, as figures 11 and 12 of the MCDNN paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_SHOWN = (
    ("served", "requests served", 100.0, "%"),
    ("energy_per_request_j", "energy per served request", 1.0, "J"),
    ("accuracy", "accuracy of served requests", 100.0, "%"),
)


def plot_figure_11(found: dict[str, Any], path: Path) -> None:
    """By load rate, a line per scheme; bars: standard deviation over traces."""
    _draw(found["schemes"], found["load_rates"], "load rate", path, scale="log")


def plot_figure_12(found: dict[str, Any], path: Path) -> None:
    """By what sending takes, a line per policy; bars: standard deviation over traces."""
    _draw(found["policies"], found["sending_j"], "J to send a request", path, scale="log")


def plot_figure_13(found: dict[str, Any], path: Path) -> None:
    """A day of real nodes, over time."""
    from benchmarks.catalog.day import plot_day  # needs ROS

    plot_day(found, path)


PLOTS: Mapping[str, Callable[[dict[str, Any], Path], None]] = {
    "figure11": plot_figure_11,
    "figure12": plot_figure_12,
    "day": plot_figure_13,
}
"""By section of the report."""


def _draw(curves: Mapping[str, Any], across: Sequence[float], label: str, path: Path, *, scale: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(_SHOWN), 3.8), layout="constrained")
    for axes, (key, title, factor, unit) in zip(figure.subplots(1, len(_SHOWN)), _SHOWN, strict=True):
        for name, points in curves.items():
            means, stds = ([factor * point[key][of] for point in points.values()] for of in ("mean", "std"))
            axes.errorbar(across, means, stds, marker="o", capsize=3, label=name)
        axes.set(title=title, xlabel=label, ylabel=unit, xscale=scale)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
