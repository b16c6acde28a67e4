# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How a node's process ends."""

from __future__ import annotations

import os
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


def test_a_node_that_ends_by_a_bug_waits_for_no_thread(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "buggy_node.py").write_text(HAS_A_BUG)
    with NodeGroup(tmp_path / "logs") as group:
        environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        node = group.start(NodeCommand(executable="some.buggy_node", environment=environment))
        assert node.wait(DEADLINE_S) == 1
    assert "Traceback" in node.output
    assert "RuntimeError: a bug" in node.output
