# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What waits for a port that a killed process has begun to make goes on soon, as each of our nodes looks for such."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.fast_dds import DATA_PORT_VARIABLE, PROFILES_VARIABLE
from cacheinf_ros.pipeline.polling import wait_until

CONFIG = Path(__file__).parents[2] / "config"
START_S, DEADLINE_S = 60.0, 20.0
OFFSET, SIZE = 137, 52_400
OTHER = """
import rclpy
print("begins", flush=True)
rclpy.init()
node = rclpy.create_node("another")
print("has begun", flush=True)
"""


@pytest.fixture
def unfinished(domain: int) -> Iterator[list[Path]]:
    """Make ports of the domain as a process leaves one that is killed before it has written to it.

    Which of them is the next process's depends on how many there are.
    """
    ports = [Path(f"/dev/shm/fastdds_port{7400 + 250 * domain + offset}") for offset in range(OFFSET, OFFSET + 40, 2)]
    for port in ports:
        port.write_bytes(bytes(SIZE))
    yield ports
    for port in ports:
        port.unlink(missing_ok=True)


def test_another_process_that_waits_for_it_goes_on(rig: Any, unfinished: list[Path], domain: int) -> None:
    """It is any process, whose port is given; it opens the port as those do who send to it."""
    own = {
        "ROS_DOMAIN_ID": str(domain),
        PROFILES_VARIABLE: str(CONFIG / "fastdds.xml"),
        DATA_PORT_VARIABLE: str(OFFSET),
    }
    with subprocess.Popen(
        [sys.executable, "-u", "-c", OTHER], env={**os.environ, **own}, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == "begins\n"
            deadline = time.monotonic() + 3.0
            while time.monotonic() < deadline:
                for port in unfinished:
                    os.utime(port)  # it is new, so that no node of another test on this machine gives it up
                time.sleep(0.1)
            assert other.poll() is None, "this test needs another way to make somebody wait"
            node = rig.nodes.start(rig.command("cached_inference"))
            assert wait_until(lambda: other.poll() is not None, START_S)
            assert other.stdout.readline() == "has begun\n"
        finally:
            other.kill()
    node.wait_ready(START_S)
    unfinished[-1].write_bytes(bytes(SIZE))  # while the node runs
    assert wait_until(lambda: not unfinished[-1].exists(), DEADLINE_S)
    assert node.stop() == 0
