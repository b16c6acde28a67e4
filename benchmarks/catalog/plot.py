# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plots of ``cacheinf bench catalog``, in the form of figures 11 to 13 of the MCDNN paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_SHOWN = (
    ("served", "requests served", 100.0, "%"),
    ("energy_per_request_j", "energy per served request", 1.0, "J"),
    ("accuracy", "accuracy of served requests", 100.0, "%"),
)


def plot_figure_11(found: dict[str, Any], path: Path) -> None:
    """Plot figure 11 against the load rate: a line per scheme; bars show the standard deviation over traces."""
    _draw(found["schemes"], found["load_rates"], "load rate of the originals", path, scale="linear")


def plot_figure_12(found: dict[str, Any], path: Path) -> None:
    """Plot figure 12 against the share of specialised or shared models: a line per policy and energy of sending."""
    _draw(found["policies"], found["specialised"], "share of models specialised or shared", path, scale="linear")


def plot_day(found: dict[str, Any], path: Path) -> None:
    """Plot a day per policy: requests served and refused per second, and what is left of both budgets."""
    from matplotlib.figure import Figure

    policies = found["policies"]
    figure = Figure(figsize=(4.8 * len(policies), 6.0), layout="constrained")
    grid: Any = figure.subplots(2, len(policies), squeeze=False, sharex=True, sharey="row")
    for column, (policy, figures) in enumerate(policies.items()):
        above, below = grid[0][column], grid[1][column]
        seconds = np.arange(len(figures["served_per_s"]))
        above.step(seconds, figures["served_per_s"], where="post", color="#1a73e8", label="served")
        above.step(seconds, figures["refused_per_s"], where="post", color="#d93025", label="refused")
        at = [sample["at_s"] for sample in figures["samples"]]
        for name, of, colour in (
            ("energy_left_j", "energy_budget_j", "#188038"),
            ("money_left", "cloud_budget", "#e37400"),
        ):
            left = [sample.get(name, np.nan) / found[of] for sample in figures["samples"]]
            below.plot(at, left, color=colour, label=of.replace("_budget", "").replace("_j", ""))
        for axes in (above, below):
            for begin, end in found["away_s"]:
                axes.axvspan(begin, end, color="#9aa0a6", alpha=0.25, linewidth=0)
            axes.legend(fontsize="small")
        above.set(title=policy, ylabel="requests per s")
        below.set(xlabel="s; grey: no server", ylabel="left of the budget", ylim=(-0.05, 1.05))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


PLOTS: Mapping[str, Callable[[dict[str, Any], Path], None]] = {
    "figure11": plot_figure_11,
    "figure12": plot_figure_12,
    "day": plot_day,
}
"""The function that draws each section of the report."""


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
