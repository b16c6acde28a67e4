# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The reports of one network become one panel of the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2

from benchmarks.precision_chart import draw, times_ms


def report(share: str, mode: str, ours: float, theirs: float) -> dict[str, Any]:
    engines = {"openvino": theirs, "openvino_bf16": theirs / 2, "openvino_int8": theirs / 4, "cached": ours}
    return {
        "model": "net.onnx", "size": "8x8", "source": f"changed {share}:blob", "mode": mode,
        "latency_ms": {name: {"p50": ms} for name, ms in engines.items()},
    }  # fmt: skip


def test_medians_by_what_has_changed(tmp_path: Path) -> None:
    times = times_ms([report("0.05", "exact", 1.0, 8.0), report("1.0", "exact", 3.0, 12.0), report("1", "dense", 2, 8)])
    assert times == {
        "net\n8x8": {
            "OpenVINO float32": 8.0, "OpenVINO bfloat16": 4.0, "OpenVINO int8": 2.0,
            "ours, 5 % changed": 1.0, "ours, 100 % changed": 3.0, "ours, no cache": 2.0,
        }
    }  # fmt: skip
    draw(times, tmp_path / "chart.png")
    assert cv2.imread(str(tmp_path / "chart.png")) is not None
