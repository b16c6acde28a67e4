# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Robot and server in processes of their own over a link that fails: every frame gets its right result."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cacheinf_ros.fast_dds import BY_LAUNCH_VARIABLE, PROFILES_VARIABLE
from cacheinf_ros.harness import NodeCommand, NodeGroup, NodeProcess
from cacheinf_ros.install_paths import share_folder
from cacheinf_ros.offload.protocol.link_faults import KINDS, Faults
from cacheinf_ros.pipeline.polling import wait_until

relays = pytest.importorskip("cacheinf_ros.nodes.packet_relay", reason="needs ROS 2")

TAG = "{http://www.eprosima.com}"
DEADLINE_S = 0.5
"""The robot's deadline for the server; a frame takes at most this plus what it takes alone."""
ALONE_S = 2.0  # for a busy machine: this tiny network itself takes almost no time
RECOVERS_S = 2.0
START_S = 60.0
PICTURES = 6
TIMES = 20
_SHOWN = 2000  # characters of a log that a failure shows


class Film:
    """A camera that sends pictures to the robot one after another, and checks each result."""

    def __init__(self, station: Any, camera_image: Callable[..., Any], robot: NodeProcess) -> None:
        self.robot = robot
        self._station = station
        self._image = camera_image
        self._sent = 0
        station.wait_for_nodes(camera_image(0), subscribers=1)
        self._right = [self._result() for _ in range(PICTURES)]
        assert {result.where for result in self._right} == {"local"}

    def frame(self) -> str:
        """Send the next picture, check that its one result is right and in time, and return where it was computed."""
        expected = self._right[self._sent % PICTURES]
        result = self._result()
        assert not result.error
        assert np.allclose(*(np.frombuffer(r.data, np.float32) for r in (result, expected)), rtol=1e-5, atol=1e-5)
        return str(result.where)

    def frames_until(self, said: Callable[[], bool], timeout_s: float = START_S) -> float:
        """Send pictures until something holds; returns how many seconds that took."""
        started = time.monotonic()
        while not said():
            assert time.monotonic() < started + timeout_s, self.robot.output[-_SHOWN:]
            self.frame()
        return time.monotonic() - started

    def until_shared(self) -> float:
        return self.frames_until(lambda: self.frame() == "shared")

    def _result(self) -> Any:
        self._sent += 1
        self._station.clear()
        self._station.publish(self._image(10**12 + self._sent * 50_000_000, seed=(self._sent - 1) % PICTURES))
        assert wait_until(lambda: len(self._station.results) > 0, DEADLINE_S + ALONE_S), self.robot.output[-_SHOWN:]
        (result,) = self._station.results
        assert result.header.stamp.sec * 10**9 + result.header.stamp.nanosec == 10**12 + self._sent * 50_000_000
        return result


@pytest.fixture(scope="module", autouse=True)
def over_a_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have the nodes send by UDP with our profile, as robot and server on two machines do.

    In shared memory, what a killed process leaves may hold up others for seconds (docs/faults.md), whatever they do.
    """
    ElementTree.register_namespace("", TAG.strip("{}"))  # Fast DDS knows no prefixes
    tree = ElementTree.parse(share_folder() / "config" / "fastdds_udp.xml")
    for parent in list(tree.iter()):
        for child in list(parent):
            is_transport = child.tag in (f"{TAG}transport_descriptor", f"{TAG}transport_id")
            if is_transport and "cacheinf_shared_memory" in (child.text, child.findtext(f"{TAG}transport_id")):
                parent.remove(child)
    profile = tmp_path_factory.mktemp("profile") / "udp.xml"
    tree.write(profile)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(BY_LAUNCH_VARIABLE, raising=False)
        patch.setenv(PROFILES_VARIABLE, str(profile))
        yield


@pytest.fixture(scope="module")
def relay(domain: int) -> Iterator[Any]:
    relay = relays.Relay(domain)
    yield relay
    relay.close()


@pytest.fixture(scope="module")
def film(
    nodes: NodeGroup,
    shared_station: Any,
    relay: Any,
    camera_image: Callable[..., Any],
    inference_command: Callable[..., NodeCommand],
) -> Film:
    robot = nodes.start(
        inference_command(
            "cached_inference",
            **{"server.use": True, "server.policy": "remote"},
            **{"server.deadline_ms": 1e3 * DEADLINE_S, "server.probe_s": 0.1},
        )
    )
    robot.wait_ready()
    assert shared_memory_of(robot) == []
    return Film(shared_station, camera_image, robot)


@pytest.fixture(scope="module")
def start_server(nodes: NodeGroup, inference_command: Callable[..., NodeCommand]) -> Callable[[], NodeProcess]:
    def start() -> NodeProcess:
        server = nodes.start(inference_command("server", **relays.SERVER))
        server.wait_ready()
        assert shared_memory_of(server) == []
        return server

    return start


def shared_memory_of(process: NodeProcess) -> list[str]:
    return re.findall(r"/dev/shm/fast\S+", Path(f"/proc/{process.pid}/maps").read_text())


def test_a_server_that_is_killed(film: Film, start_server: Callable[[], NodeProcess]) -> None:
    for _ in range(TIMES):
        server = start_server()
        try:
            film.until_shared()
        finally:
            server.kill()  # two servers would answer in the tests that follow
        assert film.frame() == "local"
        assert "Traceback" not in film.robot.output + server.output


@pytest.fixture(scope="module")
def server(film: Film, start_server: Callable[[], NodeProcess]) -> NodeProcess:
    """Start a server that stays, and wait until it is in contact with the robot."""
    server = start_server()
    film.until_shared()
    return server


def test_a_link_that_is_cut(film: Film, relay: Any, server: NodeProcess) -> None:
    """The link is cut for less than a deadline, up to more than the 3 s after which a silent server counts as dead."""
    lengths_s, took = [0.2 * 18 ** (i / (TIMES - 1)) for i in range(TIMES)], []
    random.Random(0).shuffle(lengths_s)
    for length_s in lengths_s:
        relay.faults.is_cut = True
        back = time.monotonic() + length_s
        assert film.frame() == "local"
        film.frames_until(lambda back=back: time.monotonic() > back)  # type: ignore[misc]
        relay.faults.is_cut = False
        took.append(film.until_shared())
    assert np.median(took) <= RECOVERS_S
    assert "Traceback" not in film.robot.output + server.output


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_happens_to_packets(kind: str, film: Film, relay: Any, server: NodeProcess) -> None:
    relay.faults = Faults(1, 0.1, (kind,))
    for _ in range(30):
        film.frame()
    relay.faults = Faults(0, 0.0, ("lost",))
    film.until_shared()
    assert "Traceback" not in film.robot.output + server.output
