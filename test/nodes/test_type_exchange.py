# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Our nodes do without Fast DDS's exchange of types, in which an answer can be missed: then a node stays deaf."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.fast_dds import PROFILES_VARIABLE

CONFIG = Path(__file__).parents[2] / "config"
THREADS = """
import pathlib, rclpy
rclpy.init()
node = rclpy.create_node("node")
print(*[thread.read_text() for thread in pathlib.Path("/proc/self/task").glob("*/comm")])
"""
EXCHANGE = "dds.tls"
"""The beginning of the names of the threads that exchange types."""


@pytest.mark.parametrize(
    ("profiles", "exchanges"),
    [("fastdds.xml", False), ("fastdds_udp.xml", False), ("fastdds_small.xml", False), ("", True)],
)
def test_types_are_not_exchanged(profiles: str, exchanges: bool, domain: int) -> None:
    """Without profiles they are, as long as these threads have this name: this shows that the others are tested."""
    own = {"ROS_DOMAIN_ID": str(domain), PROFILES_VARIABLE: str(CONFIG / profiles) if profiles else ""}
    threads = subprocess.run(
        [sys.executable, "-c", THREADS], env={**os.environ, **own}, check=True, capture_output=True, text=True
    ).stdout
    assert "dds." in threads
    assert (EXCHANGE in threads) == exchanges
