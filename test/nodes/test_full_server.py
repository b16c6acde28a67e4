# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server whose memory is full goes on to serve those that it serves; a robot computes the others itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from catalogs import MODELS, OTHER, TINY, catalog_command, made_catalog

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.graph import load_model
from cacheinf_ros.harness import NodeCommand, NodeGroup

DEADLINE_S = 60.0
START_S = 60.0
COSTS = {Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10**7), Place.CLOUD: Cost(energy_j=0.01)}
ROOM_MB = 10.0
MORE = 60
"""How many further results there must be: enough that a model compiled anew would show among them."""


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write catalogs of two models, of which the server has room for one."""
    engine = Engine(load_model(OTHER), EngineConfig(threads=1))
    assert ROOM_MB / 2 < engine.cache_bytes / 1e6 < ROOM_MB
    return [str(made_catalog(tmp_path_factory.mktemp(name), name, COSTS, OTHER).path) for name in MODELS]


@pytest.fixture(scope="module")
def server(nodes: NodeGroup, catalogs: list[str]) -> Any:
    parameters = {"model": TINY, "catalogs": catalogs, "server.catalog_memory_mb": ROOM_MB, "threads": 1}
    node = nodes.start(NodeCommand(executable="server", parameters=parameters))
    node.wait_ready(START_S)
    return node


@pytest.fixture(scope="module")
def robot(nodes: NodeGroup, catalogs: list[str]) -> Iterator[Any]:
    deadlines = {"server.deadline_ms": 5000.0, "server.load_deadline_ms": 30_000.0}
    probes = {"server.use": True, "server.probe_s": 0.2, "server.probe_max_s": 0.5}
    node = nodes.start(catalog_command(catalogs, rates=[20.0, 20.0], policy="server_first", **deadlines, **probes))
    node.wait_ready(START_S)
    return node


def test_one_that_has_no_room_is_computed_by_the_robot(
    server: Any, robot: Any, station: Any, camera_image: Callable[..., Any]
) -> None:
    """Before models at work were kept, the two took turns at the server, and each was compiled again for each frame."""
    numbers = count(1)

    def film(is_enough: Callable[[list[Any]], bool]) -> list[Any]:
        station.clear()
        deadline = time.monotonic() + DEADLINE_S
        while not is_enough(station.results):
            assert time.monotonic() < deadline, [(r.model, r.where, r.error, r.why) for r in station.results[-5:]]
            station.publish(camera_image(next(numbers) * 20_000_000, seed=next(numbers) % 3))
            time.sleep(0.02)
        return list(station.results)

    station.wait_for_nodes(camera_image(0), subscribers=1)

    def divided(results: list[Any]) -> bool:
        last = {result.model: result for result in results[-6:]}
        return sorted(result.where for result in last.values()) == ["local", "server"]

    film(divided)
    served = next(result.model for result in reversed(station.results) if result.where == "server")
    results = film(lambda results: len(results) >= MORE)
    assert not any(result.error for result in results)
    assert {result.model for result in results if result.where == "server"} == {served}
    assert all(result.where == "server" for result in results if result.model == served)
    assert not any("load" in result.stage_names for result in results if result.where == "server")
    assert "no memory left for another model: raise its server.catalog_memory_mb" in robot.output
    for node in (robot, server):
        assert node.stop() == 0
        assert "Traceback" not in node.output
