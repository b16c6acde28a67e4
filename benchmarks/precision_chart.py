# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Draws int8 next to dense engines, from reports by ``cacheinf bench engine --precision int8 --changed X --json``.

python -m benchmarks.precision_chart docs/precision.png reports/*.json
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ENGINES = {"openvino": "OpenVINO float32", "openvino_bf16": "OpenVINO bfloat16", "openvino_int8": "OpenVINO int8"}


def times_ms(reports: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return median frame times, ms, by model and by engine or share changed; engines' over all reports of a model."""
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        model = found[f"{report['model'].removesuffix('.onnx')}\n{report['size']}"]
        for engine, label in _ENGINES.items():
            model[label].append(report["latency_ms"][engine]["p50"])
        share = float(report["source"].removeprefix("changed ").split(":")[0])
        ours = "ours, no cache" if report["mode"] == "dense" else f"ours, {100 * share:.0f} % changed"
        model[ours].append(report["latency_ms"]["cached"]["p50"])
    return {name: {way: statistics.median(ms) for way, ms in ways.items()} for name, ways in found.items()}


def draw(times: dict[str, dict[str, float]], path: Path) -> None:
    """Draw one panel per model: the milliseconds of each way."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(times), 3.2), layout="constrained")
    for axes, (name, ways) in zip(figure.subplots(1, len(times), squeeze=False)[0], times.items(), strict=True):
        order = [*_ENGINES.values(), *sorted(set(ways) - set(_ENGINES.values()), key=ways.__getitem__, reverse=True)]
        colors = ["tab:gray" if way in _ENGINES.values() else "tab:blue" for way in order]
        bars = axes.barh(order, [ways[way] for way in order], color=colors)
        axes.bar_label(bars, fmt="%.1f", fontsize="x-small")
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.tick_params(labelsize="x-small")
        axes.set_title(name, fontsize="small")
        axes.set_xlabel("ms", fontsize="x-small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(times_ms([json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[2:]]), Path(sys.argv[1]))
