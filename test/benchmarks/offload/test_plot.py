# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plots of ``bench offload``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import pytest

from benchmarks.offload.plot import plot_offload


def report(*links: str) -> dict[str, Any]:
    def figures(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"latency_ms": {"mean": 20.0, "p50": 15.0, "p95": 40.0}}
        return found if name.isdigit() else found | {"frames_ms": [10.0, 20.0, 30.0]}

    bandwidth = {
        name: {"mbit_s": 8.0, "systems": {policy: figures(name) for policy in ("local", "cacheinf")}} for name in links
    }
    return {"model": "scenenet", "bandwidth": bandwidth}


@pytest.mark.parametrize("links", [("8", "48"), ("indoor",), ("8", "indoor", "outdoor")])
def test_a_picture_is_drawn(links: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "offload.png"
    plot_offload([report(*links), report("48")], path)
    assert cv2.imread(str(path)) is not None
