# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node of a soak has one process at a time, whatever happens to it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.harness.churn import ProcessFault
from cacheinf_ros.harness.processes import NodeCommand, NodeGroup, NodeProcess
from cacheinf_ros.harness.soaked_node import SoakedNode
from cacheinf_ros.pipeline.polling import wait_until

PATIENCE_S = 60.0


class Sleeper:
    """A soaked node, and the process IDs of all processes that were started for it."""

    def __init__(self, group: NodeGroup) -> None:
        self.pids: list[int] = []
        environment = {"PYTHONPATH": str(Path(__file__).parents[1])}

        def start(name: str, command: NodeCommand, finds_disk_full: bool) -> NodeProcess:
            process = group.start(command)
            self.pids.append(process.pid)
            return process

        self.node = SoakedNode("sleeper", NodeCommand(executable="harness.sleeper", environment=environment), start)
        self.node.start()
        self.node.wait_up(time.monotonic() + PATIENCE_S)

    def has_died(self) -> bool:
        self.node.look(time.monotonic())
        return bool(self.node.deaths)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Sleeper]:
    with NodeGroup(tmp_path) as group:
        yield Sleeper(group)


def test_one_that_dies_while_it_is_paused_is_started_once(sleeper: Sleeper) -> None:
    sleeper.node.befall(ProcessFault.PAUSED)
    os.kill(sleeper.pids[0], signal.SIGKILL)
    assert wait_until(sleeper.has_died, PATIENCE_S)
    sleeper.node.restore()
    assert len(sleeper.pids) == 2
    (death,) = sleeper.node.deaths
    assert "paused" in death


def test_one_that_was_killed_is_started_when_it_is_restored(sleeper: Sleeper) -> None:
    sleeper.node.befall(ProcessFault.KILLED)
    sleeper.node.restore()
    sleeper.node.restore()
    assert len(sleeper.pids) == 2
    assert not sleeper.node.deaths
