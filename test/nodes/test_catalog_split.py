# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of split variants: their costs and prices, and that they come and go with the server in real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from catalogs import MODELS, OTHER, catalog_command, two_catalogs

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.catalog.prices import PriceConfig
from cacheinf_ros.catalog.scheduling.decision import Load, Option, Why
from cacheinf_ros.catalog.variant import Cost, Place, Variant
from cacheinf_ros.energy.power_model import Spent
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.nodes.catalog_split import CatalogSplit, PartitionCosts, SplitCache
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 60.0
START_S = 60.0
COSTS = {
    Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10_000, load_energy_j=1.0),
    Place.SPLIT: Cost(energy_j=0.01, money=1e-4, memory_bytes=30_000, load_energy_j=1.0, load_money=1.0),
    Place.CLOUD: Cost(energy_j=5.0, money=1e-2),
}

NO_POWER = dict.fromkeys(("energy.idle_w", "energy.compute_w", "energy.transmit_w", "energy.receive_w"), 0.0)


class Link:
    """The parts of a link to a server that a split variant uses."""

    uses_cache = True

    def __init__(self) -> None:
        self.bytes_crossed, self.is_closed = 0, False
        self.session: Any = SimpleNamespace(served_ms=0.0, welcome=None, complaint="not yet")

    def close(self) -> None:
        self.is_closed = True


def cache(link: Any, variant: str = "original") -> SplitCache:
    closed: list[bool] = []
    runner: Any = SimpleNamespace(closed=closed, close=lambda **_: closed.append(True))
    prices = PriceConfig(price_server_s=2.0, price_mb=3.0)
    return SplitCache(
        runner, link, PartitionCosts(), prices, variant=variant, costs=(COSTS[Place.SPLIT], COSTS[Place.DEVICE])
    )  # fmt: skip


def test_money_by_hand() -> None:
    """Half a second at 2 dollars and 4 MB at 3 dollars count once each; each server instance charges for loading."""
    link = Link()
    ours = cache(link)
    assert ours._money() == 0.0
    link.bytes_crossed, link.session.served_ms = 4_000_000, 500.0
    assert ours._money() == pytest.approx(1.0 + 12.0)
    assert ours._money() == 0.0
    for instance in ("one", "one", "other"):
        link.session.welcome = SimpleNamespace(instance=instance)
        before = ours._loaded_by
        assert ours._money() == pytest.approx(0.0 if before == instance else 1.0)


def test_what_is_dropped_ends_its_session_and_its_work_in_the_background() -> None:
    link = Link()
    ours = cache(link)
    ours.close()
    runner: Any = ours.runner
    assert link.is_closed and ours.is_closed and len(runner.closed) == 1


def test_waiting_is_not_computing() -> None:
    outlay = PartitionCosts()
    outlay.add(Spent(compute_ms=10.0, transmit_ms=3.0, receive_ms=2.0), took_ms=40.0, money=0.5)
    assert outlay.take(100.0) == (Spent(compute_ms=70.0, transmit_ms=3.0, receive_ms=2.0), 0.5)
    assert outlay.take(100.0) == (Spent(compute_ms=100.0), 0.0)


def test_engines_that_could_be_shared_stay_while_there_is_memory() -> None:
    split = CatalogSplit.__new__(CatalogSplit)
    split._caches = {name: cache(Link()) for name in MODELS}
    split._caches["left"].share(wanted=False)

    def load(model: str, place: Place, variant: str = "original") -> Load:
        option = Option(variant=Variant(name=variant, accuracy=1.0), place=place, cost=Cost(), device_share=1.0)
        return Load(model=model, option=option, evicts=(), why=Why.FITS)

    assert split.in_the_way(load("right", Place.SPLIT), 20_000) == []
    assert split.in_the_way(load("right", Place.SPLIT), 19_999) == ["left"]
    assert split.in_the_way(load("right", Place.DEVICE), 39_999) == ["right"]
    assert split.in_the_way(load("right", Place.DEVICE, "w8"), 20_000) == []  # it goes anyway
    assert split.in_the_way(load("left", Place.SPLIT), 0) == []
    split._caches["left"].close()
    assert split.in_the_way(load("right", Place.SPLIT), 0) == []


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return two_catalogs(tmp_path_factory, COSTS)


@pytest.fixture(scope="module")
def robot(nodes: NodeGroup, catalogs: list[str]) -> Iterator[Any]:
    server = {"server.use": True, "server.policy": "remote", "server.deadline_ms": 1000.0}
    probes = {"server.probe_s": 0.2, "server.probe_max_s": 0.5}
    # both places fit, and splitting takes less. Nothing takes anything really: at most it is believed that
    # the catalog is 50 times too dear, and that does not put the device before a split
    budget = {"energy_budget_j": 12.0 * 3600.0, "budget_horizon_s": 3600.0, **NO_POWER}
    node = nodes.start(catalog_command(catalogs, rates=[30.0, 10.0], **server, **probes, **budget))
    node.wait_ready(START_S)
    return node


def test_split_variants_come_and_go_with_the_server(
    robot: Any, nodes: NodeGroup, catalogs: list[str], station: Any, camera_image: Callable[..., Any]
) -> None:
    numbers = count(time.time_ns() // 10_000_000)
    answers: dict[tuple[str, int], Any] = {}  # by model and picture, computed by the robot alone

    def film(where: str) -> list[Any]:
        """Publish until both models' latest results are from there; returns all results since then."""
        station.clear()
        deadline = time.monotonic() + DEADLINE_S
        while {r.model: r.where for r in station.results[-4:]} != dict.fromkeys(MODELS, where):
            assert time.monotonic() < deadline, [(r.where, r.error, r.why) for r in station.results[-5:]]
            number = next(numbers)
            station.publish(camera_image(number * 10_000_000, seed=number % 3))
            time.sleep(0.02)
        results = list(station.results)
        assert not any(result.error for result in results)
        for result in results:
            number = result.header.stamp.sec * 100 + result.header.stamp.nanosec // 10_000_000
            data = np.frombuffer(result.data, np.float32)
            known = answers.setdefault((result.model, number % 3), data)
            assert np.allclose(data, known, rtol=1e-5, atol=1e-5)
        return results

    def start_server() -> Any:
        server = nodes.start(
            NodeCommand(
                executable="server",
                parameters={"model": OTHER, "input_size": "61x47", "catalogs": catalogs, "threads": 1},
            )
        )
        server.wait_ready(START_S)
        return server

    station.wait_for_nodes(camera_image(0), subscribers=1)
    for _ in range(3):
        film("local")
    server = start_server()
    results = film("shared")
    assert {r.variant for r in results if r.where == "shared"} == {"original"}
    assert any("not shared: no server has answered yet" in r.why for r in results if r.where == "local")
    film("shared")
    os.kill(server.pid, signal.SIGKILL)
    results = film("local")
    assert any("; not shared: " in r.why for r in results if r.where == "local")
    deadline = time.monotonic() + DEADLINE_S
    while "not shared" in results[-1].why:  # until the scheduler takes notice
        assert time.monotonic() < deadline
        results = film("local")
    another = start_server()
    film("shared")

    def value(node: str, name: str) -> str:
        return str(station.said(node).get(name, ""))

    for model in MODELS:
        assert wait_until(lambda model=model: value("catalog_inference", f"{model}: server") == "up", DEADLINE_S)  # type: ignore[misc]
        assert wait_until(lambda model=model: value("catalog_inference", f"{model}: place") == "shared", DEADLINE_S)  # type: ignore[misc]
    assert wait_until(lambda: value("server", "sharing robots") == "2", DEADLINE_S)
    counts = ("catalog_inference", "accepted"), ("catalog_inference", "results")
    assert wait_until(lambda: value(*counts[0]) == value(*counts[1]) != "0", DEADLINE_S)
    assert robot.stop() == 0
    assert "Traceback" not in robot.output
    assert wait_until(lambda: value("server", "sharing robots") == "0", DEADLINE_S)  # they were told
    assert another.stop() == 0
    assert "Traceback" not in another.output
