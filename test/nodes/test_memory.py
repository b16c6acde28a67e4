# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the memory of matcher and replay, which run no model, and of what nodes import only when needed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from cacheinf_ros.harness import NodeCommand, NodeGroup, NodeProcess
from cacheinf_ros.pipeline.polling import wait_until

LIMIT_MB = 150
FRAMES = 40
DEADLINE_S = 60.0


def resident_mb(process: NodeProcess) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def loaded(executable: str) -> set[str]:
    """Return the modules that a node has loaded before it starts."""
    script = f"import sys, cacheinf_ros.nodes.{executable}; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert f"cacheinf_ros.nodes.{executable}" in modules
    return set(modules)


@pytest.mark.parametrize("executable", ["matcher", "replay"])
def test_neither_loads_torch_nor_numba(executable: str) -> None:
    assert not {"torch", "torchvision", "numba", "scipy", "skimage"} & loaded(executable)


@pytest.mark.parametrize("executable", ["cached_inference", "inference", "server"])
def test_what_takes_long_to_load_waits_until_somebody_needs_it(executable: str) -> None:
    others = {
        "numba",
        "scipy.optimize",
        "onnx",
        "onnxruntime",
        "openvino",
        "torchvision",
        "torch._dynamo",
        "matplotlib",
    }
    assert not others & loaded(executable)


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, str]:
    clip = cv2.VideoWriter(str(tmp_path / "clip.mp4"), cv2.VideoWriter.fourcc(*"mp4v"), 30.0, (640, 480))
    picture = np.random.default_rng(0).integers(0, 256, (480, 640, 3), np.uint8)
    for i in range(FRAMES):
        clip.write(np.roll(picture, i, axis=1))
    clip.release()
    return {"video": str(tmp_path / "clip.mp4"), "scene": "scene:handheld?size=480x640"}


@pytest.fixture
def started(new_nodes: NodeGroup) -> Iterator[list[NodeProcess]]:
    processes: list[NodeProcess] = []
    yield processes
    for process in processes:
        process.stop()


@pytest.mark.parametrize("source", ["video", "scene"])
def test_both_fit_into_150_mb(
    new_nodes: NodeGroup, station: Any, sources: dict[str, str], started: list[NodeProcess], source: str
) -> None:
    matcher = new_nodes.start(NodeCommand(executable="matcher"))
    started.append(matcher)
    matcher.wait_ready(DEADLINE_S)
    playing = {"source": sources[source], "rate": 30.0, "loop": True, "wait_for_subscribers": 1}
    replay = new_nodes.start(NodeCommand(executable="replay", parameters=playing))
    started.append(replay)
    assert wait_until(lambda: len(station.maps) >= FRAMES, DEADLINE_S), replay.output
    used = {process.command.executable: resident_mb(process) for process in started}
    assert max(used.values()) < LIMIT_MB, used
