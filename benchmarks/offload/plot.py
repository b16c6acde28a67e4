# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plots of ``cacheinf bench offload``, in the form of CacheInf's figures 5 and 6."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_LEAST_MS = 10.0


def plot_offload(reports: Sequence[dict[str, Any]], path: Path) -> None:
    """Plot a row per report: mean latency by bandwidth, and for each trace the latencies one after another."""
    from matplotlib.figure import Figure

    rows = [_panels(report) for report in reports]
    columns = max(map(len, rows))
    figure = Figure(figsize=(6.0 * columns, 3.8 * len(rows)), layout="constrained")
    for axes_row, panels in zip(figure.subplots(len(rows), columns, squeeze=False), rows, strict=True):
        for axes, (report, name) in zip(axes_row, panels, strict=False):
            if name is None:
                _by_bandwidth(axes, report)
            else:
                _over_time(axes, report, name)
            axes.legend(fontsize="x-small", ncols=2)
        for axes in axes_row[len(panels) :]:
            axes.set_axis_off()
    figure.savefig(path, dpi=110)


def _panels(report: dict[str, Any]) -> list[tuple[dict[str, Any], str | None]]:
    traces = [name for name, found in report["bandwidth"].items() if _is_traced(found)]
    fixed = len(report["bandwidth"]) > len(traces)
    return [(report, None)] * fixed + [(report, name) for name in traces]


def _is_traced(found: dict[str, Any]) -> bool:
    return any("frames_ms" in figures for figures in found["systems"].values())


def _by_bandwidth(axes: Any, report: dict[str, Any]) -> None:
    fixed = [found for found in report["bandwidth"].values() if not _is_traced(found)]
    for policy in fixed[0]["systems"]:
        means = [found["systems"][policy]["latency_ms"]["mean"] for found in fixed]
        axes.loglog([found["mbit_s"] for found in fixed], means, marker="o", label=policy)
    axes.set(title=report["model"], xlabel="Mbit/s", ylabel="mean ms per frame")


def _over_time(axes: Any, report: dict[str, Any], name: str) -> None:
    for policy, figures in report["bandwidth"][name]["systems"].items():
        took = figures.get("frames_ms")
        if took:
            axes.semilogy(np.cumsum(took) / 1e3, np.maximum(took, _LEAST_MS), linewidth=0.8, label=policy)
    axes.set(title=f"{report['model']}, {name}", xlabel="s", ylabel="ms per frame")
