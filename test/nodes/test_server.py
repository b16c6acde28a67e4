# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server answers, dies and comes back, and no frame goes without its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.offload.protocol.packets import Kind, Packet
from cacheinf_ros.pipeline.polling import wait_until

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


@pytest.fixture
def film_until(rig: Any) -> Callable[[str], None]:
    """Return a function that publishes images until a result was computed somewhere."""
    stamps = iter(range(10**12, 10**13, 50_000_000))

    def film(where: str) -> None:
        deadline = time.monotonic() + START_S
        while rig.station.answer(rig.image(next(stamps))).where != where:
            assert time.monotonic() < deadline

    return film


def test_frames_are_computed_by_the_server_while_there_is_one(
    robot: Any, rig: Any, film_until: Callable[[str], None]
) -> None:
    rig.station.wait_for_nodes(rig.image(0), subscribers=1)
    film_until("local")
    server = rig.nodes.start(rig.command("server"))
    server.wait_ready()
    film_until("server")
    rig.station.clear()
    rig.station.publish(*(rig.image(10**13 + number * 50_000_000) for number in range(3)))
    results = rig.station.expect(3)
    assert [result.where for result in results] == ["server"] * 3
    assert results[2].reuse_ratio == pytest.approx(1.0)
    assert results[2].mode == "exact"
    assert server.stop() == 0
    assert "Traceback" not in server.output
    rig.station.clear()
    film_until("local")
    assert not any(result.error for result in rig.station.results)
    assert "server: answers" in robot.output
    another = rig.nodes.start(rig.command("server"))
    another.wait_ready()
    film_until("server")
    another.stop()


def test_an_answer_that_is_cut_off_costs_the_server_and_no_result(
    robot: Any, rig: Any, domain: int, film_until: Callable[[str], None]
) -> None:
    relays = pytest.importorskip("cacheinf_ros.nodes.packet_relay", reason="needs ROS 2")

    def cut_off(packet: Packet, receiver: str) -> list[Packet]:
        """Cut off a result but give it the right checksum, as an attacker would."""
        data = packet.data[: len(packet.data) // 2] if packet.kind == Kind.RESULT else packet.data
        return [replace(packet, data=data).sealed()]

    relay = relays.Relay(domain)
    try:
        server = rig.nodes.start(rig.command("server", **relays.SERVER))
        server.wait_ready()
        rig.station.wait_for_nodes(rig.image(0), subscribers=1)
        film_until("server")
        honest, relay.faults = relay.faults, cut_off
        film_until("local")
        assert wait_until(lambda: "the server: a result of" in robot.output, START_S)
        relay.faults = honest
        film_until("server")
        assert not any(result.error for result in rig.station.results)
        assert server.stop() == 0
    finally:
        relay.close()


def test_a_server_with_another_model_is_refused(robot: Any, rig: Any) -> None:
    server = rig.nodes.start(rig.command("server", model=OTHER))
    server.wait_ready()
    rig.station.wait_for_nodes(rig.image(0), subscribers=1)
    deadline, stamps = time.monotonic() + START_S, iter(range(10**13, 2 * 10**13, 50_000_000))
    while "start both with the same model" not in robot.output and time.monotonic() < deadline:
        assert rig.station.answer(rig.image(next(stamps))).where == "local"
    assert "start both with the same model" in robot.output
    server.stop()
