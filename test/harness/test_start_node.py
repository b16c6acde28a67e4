# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How a node's process ends when the node fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from cacheinf_ros.harness import NodeCommand, NodeGroup

pytest.importorskip("rclpy", reason="needs ROS 2")

DEADLINE_S = 60.0
HAS_A_BUG = """
import threading
import time

def main():
    threading.Thread(target=time.sleep, args=(1000,)).start()
    raise RuntimeError("a bug")
"""

LOOKS_AT_ITS_COLLECTOR = """
import gc

def main():
    print(f"collects: {gc.isenabled()}, most objects are exempt: {gc.get_freeze_count() > len(gc.get_objects())}")
    return 0
"""
CRASHES = """
import ctypes

def main():
    ctypes.string_at(0)
"""


def ended(folder: Path, code: str) -> tuple[int, str]:
    """Run a node with this code, and return its exit code and its output."""
    (folder / "some").mkdir()
    (folder / "some" / "buggy_node.py").write_text(code)
    with NodeGroup(folder / "logs") as group:
        environment = {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        node = group.start(NodeCommand(executable="some.buggy_node", environment=environment))
        return node.wait(DEADLINE_S), node.output


def test_a_node_that_ends_by_a_bug_waits_for_no_thread(tmp_path: Path) -> None:
    code, output = ended(tmp_path, HAS_A_BUG)
    assert code == 1
    assert "Traceback" in output
    assert "RuntimeError: a bug" in output


def test_a_node_that_crashes_says_where(tmp_path: Path) -> None:
    code, output = ended(tmp_path, CRASHES)
    assert code == -signal.SIGSEGV
    assert "Segmentation fault" in output and "string_at" in output


def test_garbage_is_collected_but_not_looked_for_in_what_importing_made(tmp_path: Path) -> None:
    assert ended(tmp_path, LOOKS_AT_ITS_COLLECTOR) == (0, "collects: True, most objects are exempt: True\n")
