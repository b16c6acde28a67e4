# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Each start of a process takes a port of its own, so that it hardly ever has that of one that was just killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.fast_dds import DATA_PORT_VARIABLE, PROFILES_VARIABLE, USUAL_DATA_PORT

CONFIG = Path(__file__).parents[2] / "config"
FIRST_PORT, PORTS = 7400, 250  # of domain 0, and for each domain: RTPS 2.5, section 9.6.2.3
IN_USE = """
import os, pathlib, rclpy
if {sets_up}:
    from cacheinf_ros.fast_dds import set_up_middleware
    set_up_middleware()
rclpy.init()
node = rclpy.create_node("node")
print(os.environ.get("CACHEINF_DATA_PORT_OFFSET", ""))
print(*[file.name for file in pathlib.Path("/dev/shm").glob("fast*_port*_el")])
"""


def _start(profiles: str, domain: int, *, sets_up: bool = False, offset: str = "") -> tuple[str, str]:
    """Start a node; returns the offset that its process was given, and the names of all ports in use."""
    own = {"ROS_DOMAIN_ID": str(domain), PROFILES_VARIABLE: str(CONFIG / profiles)}
    inherited = {name: value for name, value in os.environ.items() if name != DATA_PORT_VARIABLE}
    said = subprocess.run(
        [sys.executable, "-c", IN_USE.format(sets_up=sets_up)],
        env={**inherited, **own, **({DATA_PORT_VARIABLE: offset} if offset else {})},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return said[0], said[1]


@pytest.mark.parametrize("profiles", ["fastdds.xml", "fastdds_small.xml"])
@pytest.mark.parametrize("offset", ["", "137"])
def test_the_profiles_take_the_port_that_they_are_told_or_the_usual_one(
    profiles: str, offset: str, domain: int
) -> None:
    """A camera driver that is given our profiles by hand has no such variable."""
    _, ports = _start(profiles, domain, offset=offset)
    assert f"_port{FIRST_PORT + PORTS * domain + int(offset or USUAL_DATA_PORT)}_el" in ports


def test_each_start_has_a_port_of_its_own(domain: int) -> None:
    """Also where the process that starts it has one; three alike by chance are one in 3,721."""
    first = FIRST_PORT + PORTS * domain
    offsets = set()
    for _ in range(3):
        offset, ports = _start("fastdds.xml", domain, sets_up=True, offset="11")
        offsets.add(offset)
        assert f"_port{first + int(offset)}_el" in ports
    assert len(offsets) > 1
