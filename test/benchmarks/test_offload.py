# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Parts of ``bench offload`` that need no root."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import pytest

from cacheinf_ros.benchmarks.limited_cpu import DutyCycle
from cacheinf_ros.benchmarks.offload_plot import plot_offload
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.nodes.limited import find_trace


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


def test_traces_are_found_by_name() -> None:
    assert find_trace("48").mbit_s.tolist() == [48.0]
    assert find_trace("outdoor").period == 60.0
    with pytest.raises(ConfigError, match="neither"):
        find_trace("on the moon")


def test_a_process_gets_a_part_of_its_time() -> None:
    """By the processor time that it has used, compared with what has passed."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process, DutyCycle(0.2) as cycle:
        cycle.take(process.pid)
        used, started = _used_s(process.pid), time.monotonic()
        while time.monotonic() < started + 2:
            time.sleep(0.1)
        share = (_used_s(process.pid) - used) / (time.monotonic() - started)
        process.kill()
    assert 0 < share < 0.6


def _used_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
