# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Diagnostics report when no results go out, the worker thread is gone, or there is no camera."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from catalogs import MODELS, catalog_command, made_catalog

pytest.importorskip("rclpy", reason="needs ROS 2")

from nodes.broken_node import IDLE, MORTAL, NERVOUS, broken_command

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 30.0
OK, WARN, ERROR = b"\x00", b"\x01", b"\x02"


@pytest.mark.parametrize(("name", "reason"), [(IDLE, "no result has gone out"), (MORTAL, "has ended")])
def test_a_node_that_answers_no_more_says_so(
    name: str, reason: str, nodes: NodeGroup, station: Any, camera_image: Callable[..., Any]
) -> None:
    node = nodes.start(broken_command(name, **{"diagnostics.stuck_after_s": 0.5}))
    assert wait_until(lambda: name in station.diagnostics, DEADLINE_S), node.output
    assert station.diagnostics[name].level != ERROR
    assert wait_until(lambda: station.camera(camera_image(0)).get_subscription_count() > 0, DEADLINE_S)

    def is_said() -> bool:
        station.publish(camera_image(10**12))
        return station.diagnostics[name].level == ERROR and reason in station.diagnostics[name].message

    assert wait_until(is_said, DEADLINE_S), station.diagnostics[name].message
    assert node.exit_code is None


def test_a_callback_that_fails_ends_nothing_and_is_told(
    nodes: NodeGroup, station: Any, camera_image: Callable[..., Any]
) -> None:
    node = nodes.start(broken_command(NERVOUS))
    assert wait_until(lambda: station.camera(camera_image(0)).get_subscription_count() > 0, DEADLINE_S), node.output
    numbers = count(1)

    def is_said() -> bool:
        station.publish(camera_image(10**12 * next(numbers)))
        status = station.diagnostics.get(NERVOUS)
        return status is not None and status.level == ERROR and "ValueError: image " in status.message

    assert wait_until(is_said, DEADLINE_S), (station.diagnostics.get(NERVOUS), node.output)
    assert node.exit_code is None
    assert "a callback: internal error" in node.output and "Traceback" in node.output
    assert node.stop() == 0


def test_a_camera_that_is_not_there_or_has_gone_is_missed(
    nodes: NodeGroup, station: Any, inference_command: Callable[..., NodeCommand], camera_image: Callable[..., Any]
) -> None:
    from sensor_msgs.msg import Image

    node = nodes.start(inference_command("matcher", image_topic="other/image"))

    def says(level: bytes, message: str) -> bool:
        status = station.diagnostics.get("matcher")
        return status is not None and (status.level, status.message) == (level, message)

    assert wait_until(lambda: says(WARN, "nobody publishes on /other/image"), DEADLINE_S), station.diagnostics
    camera = station.node.create_publisher(Image, "other/image", 10)

    def is_well() -> bool:
        camera.publish(camera_image(10**12))
        return station.diagnostics["matcher"].level == OK and "latency" in station.diagnostics["matcher"].message

    assert wait_until(is_well, DEADLINE_S), station.diagnostics
    station.call(lambda: station.node.destroy_publisher(camera))
    assert wait_until(lambda: says(WARN, "nobody publishes on /other/image any more"), DEADLINE_S), station.diagnostics
    assert node.stop() == 0
    assert node.output.count("nobody publishes on") == 2


def test_a_model_that_always_fails_is_told_beside_one_that_answers_more_often(
    nodes: NodeGroup, station: Any, camera_image: Callable[..., Any], tmp_path: Path
) -> None:
    """The first model costs more than all that is left of the budget."""
    costs = [Cost(energy_j=energy_j, memory_bytes=10_000) for energy_j in (1e9, 1e-6)]
    folders = [
        str(made_catalog(tmp_path / name, name, {Place.DEVICE: cost}).path)
        for name, cost in zip(MODELS, costs, strict=True)
    ]
    node = nodes.start(catalog_command(folders, rates=[0.3, 20.0], energy_budget_j=1e3))
    node.wait_ready(DEADLINE_S)
    numbers = count(1)

    def reported(reports: int) -> list[Any]:
        """Return the next status messages, while the camera publishes."""
        told: list[Any] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(told) < reports and time.monotonic() < deadline:
            station.publish(camera_image(10**12 + next(numbers) * 50_000_000))
            time.sleep(0.05)
            status = station.diagnostics.pop("catalog_inference", None)
            told += [] if status is None else [status]
        return told

    def refused() -> bool:
        (status,) = reported(1)
        return status.level == ERROR and "left: refused" in status.message

    assert wait_until(refused, DEADLINE_S), node.output
    before = sum(not result.error for result in station.results)
    for status in reported(4):
        assert status.level == ERROR and "left: refused" in status.message, status.message
    assert sum(not result.error for result in station.results) > before + 4
    assert node.stop() == 0
