# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server answers, dies, and comes back; no frame goes without its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cacheinf_ros.harness import NodeCommand, NodeGroup

START_S = 60.0
OTHER = str(Path(__file__).parents[1] / "networks" / "colours.yaml")


@pytest.fixture
def robot(nodes: NodeGroup, station: Any, inference_command: Callable[..., NodeCommand]) -> Iterator[Any]:
    node = nodes.start(
        inference_command(
            "cached_inference",
            **{"server.use": True, "server.policy": "remote_jpeg", "server.deadline_ms": 1000.0},
            **{"server.probe_s": 0.2, "server.probe_max_s": 0.5},
        )
    )
    node.wait_ready()
    yield node
    assert node.stop() == 0
    assert "Traceback" not in node.output


def test_frames_are_computed_by_the_server_while_there_is_one(robot: Any, rig: Any) -> None:
    stamps = iter(range(10**12, 10**13, 50_000_000))

    def film_until(where: str) -> None:
        deadline = time.monotonic() + START_S
        rig.station.clear()
        while rig.station.answer(rig.image(next(stamps))).where != where:
            assert time.monotonic() < deadline

    rig.station.wait_for_nodes(rig.image(0), subscribers=1)
    film_until("local")
    server = rig.nodes.start(rig.command("server"))
    server.wait_ready()
    film_until("server")
    rig.station.clear()
    rig.station.publish(*(rig.image(next(stamps)) for _ in range(3)))
    results = rig.station.expect(3)
    assert [result.where for result in results] == ["server"] * 3
    assert results[2].reuse_ratio == pytest.approx(1.0)
    assert results[2].mode == "exact"
    assert server.stop() == 0
    assert "Traceback" not in server.output
    film_until("local")
    assert not any(result.error for result in rig.station.results)
    assert "server: answers" in robot.output
    another = rig.nodes.start(rig.command("server"))
    another.wait_ready()
    film_until("server")
    another.stop()


def test_a_server_with_another_model_is_refused(robot: Any, rig: Any) -> None:
    server = rig.nodes.start(rig.command("server", model=OTHER))
    server.wait_ready()
    rig.station.wait_for_nodes(rig.image(0), subscribers=1)
    deadline, stamps = time.monotonic() + START_S, iter(range(10**13, 2 * 10**13, 50_000_000))
    while "start both with the same model" not in robot.output and time.monotonic() < deadline:
        assert rig.station.answer(rig.image(next(stamps))).where == "local"
    assert "start both with the same model" in robot.output
    server.stop()
