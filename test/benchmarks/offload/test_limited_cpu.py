# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Parts of ``bench offload`` that need no root."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.offload import limited_cpu
from benchmarks.offload.limited_cpu import DutyCycle, LimitedCpu
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.nodes.limited import find_trace


def test_traces_are_found_by_name() -> None:
    assert find_trace("48").mbit_s.tolist() == [48.0]
    assert find_trace("outdoor").period == 60.0
    with pytest.raises(ConfigError, match="neither"):
        find_trace("on the moon")


def test_a_process_gets_a_part_of_its_time() -> None:
    """The processor time that the process has used is a share of the time that has passed."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process, DutyCycle(0.2) as cycle:
        cycle.take(process.pid)
        used, started = _used_s(process.pid), time.monotonic()
        while time.monotonic() < started + 2:
            time.sleep(0.1)
        share = (_used_s(process.pid) - used) / (time.monotonic() - started)
        process.kill()
    assert 0 < share < 0.6


@pytest.mark.parametrize(("cores", "limit"), [(2.5, "12500 5000"), (0.2, "1000 5000"), (0.05, "1000 20000")])
def test_a_control_group_gets_the_share_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: float, limit: str
) -> None:
    """The kernel takes no quota below a millisecond, so that a small share needs a longer period."""
    monkeypatch.setattr(limited_cpu, "_ROOT", tmp_path)
    (tmp_path / "cgroup.controllers").touch()
    with LimitedCpu(cores):
        (file,) = tmp_path.rglob("cpu.max")
        assert file.read_text() == limit


def test_processors_that_cannot_be_given_are_refused() -> None:
    assert DutyCycle(2.0).kind == "affinity"
    with pytest.raises(ConfigError, match=r"1\.5 processors"):
        DutyCycle(1.5)


def _used_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
