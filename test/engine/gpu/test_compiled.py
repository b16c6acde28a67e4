# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Kernels compile for GPUs that this machine lacks, in a process of its own: this one interprets kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
SHARED_BYTES = {87: 163 * 1024, 90: 227 * 1024}
"""The most shared memory that one program may take (CUDA programming guide, compute capabilities), by capability."""
TARGETS = ((87, "float32"), (87, "float16"), (90, "bfloat16"))
"""Orin (8.7) and H100 (9.0), and what feature maps are kept in there."""
Kernels = dict[str, list[tuple[bool, int]]]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kernels]:
    """Compile for all targets in one process: most of what two of them need is the same."""
    path = os.pathsep.join([*map(str, (TESTS.parent, TESTS, TESTS / "networks")), os.environ.get("PYTHONPATH", "")])
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(TESTS / "ahead_of_time.py"), *(f"{number}:{floats}" for number, floats in TARGETS)],
        capture_output=True, text=True, check=False, timeout=900,
        env=environment | {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    kernels: dict[str, Kernels] = json.loads(done.stdout.splitlines()[-1])
    return kernels


@pytest.mark.parametrize(("capability", "precision"), TARGETS)
def test_whatever_a_frame_launches_compiles(capability: int, precision: str, compiled: dict[str, Kernels]) -> None:
    kernels = compiled[f"{capability}:{precision}"]
    sets = {"propagate", "combine_sets", "fill_if_any", "commit", "squared_changes"}
    assert {"convolve", "convolve_depthwise", "pool", "combine"} | sets <= set(kernels)
    assert len(kernels["commit"]) == 6, "one for each criterion, of one camera and of three"
    assert len(kernels["write_frame"]) == 4, "one for each way to resize, and one for none"
    assert all(on_tensor_cores for on_tensor_cores, _ in kernels["convolve"])
    for name, variants in kernels.items():
        assert max(shared for _, shared in variants) <= SHARED_BYTES[capability], name
