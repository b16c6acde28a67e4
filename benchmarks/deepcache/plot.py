# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Pictures of DeepCache's figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
