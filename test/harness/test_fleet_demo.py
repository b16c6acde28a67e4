# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A small ``cacheinf fleet demo``, as a user runs it: two Ray nodes on this machine, one of which is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs Ray: `make test` has it in a folder of its own")

_SLOWNESS = "slowest"  # requirements on times are only for the demo on an idle machine
_PATIENCE_S = 170.0


def test_every_frame_of_a_small_demo_has_one_right_result(tmp_path: Path) -> None:
    command = [
        "fleet", "demo", "--robots", "2", "--gateways", "2", "--rate", "0.5", "--deadline-ms", "1900", "--seconds", "6",
        "--planned", "8", "--out", str(tmp_path),
    ]  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-m", "cacheinf_ros.cli.main", *command], capture_output=True, text=True, timeout=_PATIENCE_S
    )
    assert (tmp_path / "report.json").exists(), ran.stdout[-4000:] + ran.stderr[-4000:]
    report = json.loads((tmp_path / "report.json").read_text())
    missed = [each for each in report["requirements"] if not each["is_met"] and _SLOWNESS not in each["what"]]
    assert not missed, (missed, report["robots"], report["counts"])
    assert report["fates"] == {"right": report["sent"]} and report["same_bits"] == report["sent"]
    assert all(robot["steady"]["shared"] for robot in report["robots"])
    assert report["counts"]["moved"] >= 1
