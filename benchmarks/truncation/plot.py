# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plots of ``cacheinf bench truncation``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def plot_truncation(reports: Sequence[dict[str, Any]], path: Path) -> None:
    """Plot milliseconds against missed change, one panel per report."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(reports), 4.0), layout="constrained")
    for axes, report in zip(np.atleast_1d(figure.subplots(1, len(reports))), reports, strict=True):
        for name, curve in report["curves"].items():
            axes.plot([p["missed_change"] for p in curve], [p["predicted_ms"] for p in curve], marker=".", label=name)
        axes.axhline(report["exact"]["predicted_ms"], color="grey", linestyle=":", label="exact")
        axes.set(
            title=f"{report['model']}, {report['source']}",
            xlabel="missed change",
            ylabel="predicted ms per frame",
            xlim=(0, 1),
        )
        axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)
