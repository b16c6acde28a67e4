# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Shared memory left by killed processes is removed, and what any process still uses is kept."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cacheinf_ros.shared_segments import give_up_unfinished_ports, remove_abandoned_segments

SIZE = 1000
HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "r+b")
fcntl.flock(lock, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


def segment(folder: Path, name: str, *, age_s: float = 100.0) -> Path:
    made, lock = folder / name, folder / f"{name}_el"
    made.write_bytes(bytes(SIZE))
    lock.touch()
    then = lock.stat().st_mtime - age_s
    os.utime(lock, (then, then))
    return made


@pytest.fixture
def used(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """Create a segment, and start a process that uses it."""
    made = segment(tmp_path, "fastdds_00000000000000a1")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, f"{made}_el"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield made, process.pid
        process.kill()


def test_a_segment_stays_while_its_owner_lives_and_goes_after_it(used: tuple[Path, int]) -> None:
    made, pid = used
    os.kill(pid, signal.SIGSTOP)
    assert remove_abandoned_segments(made.parent) == 0
    assert made.exists()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert remove_abandoned_segments(made.parent) == SIZE
    assert not list(made.parent.iterdir())


def test_only_old_segments_of_fast_dds_are_removed(tmp_path: Path) -> None:
    gone = [segment(tmp_path, "fastdds_0123456789abcdef"), segment(tmp_path, "fastrtps_xyz0000000000000")]
    (tmp_path / "fastdds_0000000000000001_el").touch()
    os.utime(tmp_path / "fastdds_0000000000000001_el", (0, 0))  # a lock without a segment
    stay = [
        segment(tmp_path, "fastdds_0000000000000002", age_s=0.0),
        segment(tmp_path, "fastdds_port7413"),
        segment(tmp_path, "somebody_elses"),
    ]
    assert remove_abandoned_segments(tmp_path) == len(gone) * SIZE
    assert {path.name for path in tmp_path.iterdir()} == {name for p in stay for name in (p.name, f"{p.name}_el")}


def test_where_there_is_no_shared_memory_nothing_happens(tmp_path: Path) -> None:
    assert remove_abandoned_segments(tmp_path / "nowhere") == 0


def port(folder: Path, number: int, content: bytes, *, age_s: float = 100.0) -> Path:
    made = folder / f"fastdds_port{number}"
    made.write_bytes(content)
    then = made.stat().st_mtime - age_s
    os.utime(made, (then, then))
    return made


def test_only_unfinished_ports_are_given_up_and_those_who_have_them_open_see_it(tmp_path: Path) -> None:
    rest = bytes(100)
    waiting = {
        number: port(tmp_path, number, content)
        for number, content in {7411: struct.pack("=I", 0) + rest, 7413: struct.pack("=I", 1) + rest, 7415: b""}.items()
    }
    kept = [
        port(tmp_path, 7417, struct.pack("=I", 2) + rest),
        port(tmp_path, 7419, struct.pack("=I", 3) + rest),
        port(tmp_path, 7421, struct.pack("=I", 0) + rest, age_s=0.0),
        segment(tmp_path, "fastdds_00000000000000a1"),
    ]
    for name in ("fastdds_port7411_el", "sem.fastdds_port7411_mutex", "other_port7411"):
        kept.append(tmp_path / name)
        kept[-1].write_bytes(bytes(32))
    opened = {number: path.open("rb") for number, path in waiting.items()}
    assert sorted(give_up_unfinished_ports(tmp_path)) == [path.name for path in waiting.values()]
    assert not any(path.exists() for path in waiting.values()) and all(path.exists() for path in kept)
    seen = {number: file.read() for number, file in opened.items()}
    assert seen == {**dict.fromkeys((7411, 7413), struct.pack("=I", 3) + rest), 7415: b"\0"}
    assert give_up_unfinished_ports(tmp_path) == []


def test_there_may_be_no_shared_memory(tmp_path: Path) -> None:
    assert give_up_unfinished_ports(tmp_path / "none") == []
