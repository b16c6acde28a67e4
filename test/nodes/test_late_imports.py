# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Nodes import what planning and following objects need before they say that they are ready, so that no frame waits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from catalogs import catalog_command, two_catalogs

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.harness import NodeCommand, NodeGroup, NodeProcess

pytest.importorskip("rclpy", reason="needs ROS 2")

LARGE = re.compile(
    r"^import time:.*\| +((?:cv2|llvmlite|numba|onnx|onnxruntime|openvino|scipy|torch|torchvision)\b.*)$", re.MULTILINE
)


@pytest.fixture
def start(new_nodes: NodeGroup) -> Iterator[Callable[[NodeCommand], NodeProcess]]:
    """Return a function that starts a node which writes each module that it imports into its log."""
    nodes = []

    def start_one(command: NodeCommand) -> NodeProcess:
        nodes.append(new_nodes.start(replace(command, environment={"PYTHONPROFILEIMPORTTIME": "1"})))
        nodes[-1].wait_ready()
        assert LARGE.search(nodes[-1].output)
        return nodes[-1]

    yield start_one
    codes = [node.stop() for node in nodes]
    assert not any(codes)


def imported_late(node: NodeProcess) -> list[str]:
    """Return the modules of large libraries that a node imported after it said that it was ready."""
    _, after = node.output.split(": ready\n", 1)
    return LARGE.findall(after)


def test_frames_that_are_divided(
    start: Callable[[NodeCommand], NodeProcess],
    station: Any,
    film: Callable[..., list[Any]],
    inference_command: Callable[..., NodeCommand],
) -> None:
    server = start(inference_command("server"))
    shares = {"server.use": True, "server.policy": "remote", "server.probe_s": 0.1, "server.schedule_s": 1.0}
    robot = start(inference_command("cached_inference", **shares))
    results = film(lambda results: sum(result.where == "shared" for result in results) >= 3)
    (answer,), _ = station.set_parameters("cached_inference", **{"server.policy": "cacheinf"})
    assert answer.successful
    # a schedule is looked for from then on, and the best cut for each frame
    results += film(lambda results: len(results) >= 20 and "schedule" in station.said("cached_inference"))
    assert not any(result.error for result in results)
    assert imported_late(robot) == imported_late(server) == []


def test_objects_that_are_followed_by_a_node_that_plans_nothing(
    start: Callable[[NodeCommand], NodeProcess],
    film: Callable[..., list[Any]],
    inference_command: Callable[..., NodeCommand],
) -> None:
    plans_nothing = {"server.use": True, "server.policy": "remote_jpeg"}
    robot = start(inference_command("cached_inference", model="scenenet", tracks=True, **plans_nothing))
    results = film(lambda results: sum(len(result.box_x) > 0 for result in results) >= 3)
    assert not any(result.error for result in results)
    assert imported_late(robot) == []
    assert "cacheinf_ros.offload.planning.timeline_loop" not in robot.output


def test_requests_that_are_planned(
    tmp_path_factory: pytest.TempPathFactory,
    start: Callable[[NodeCommand], NodeProcess],
    film: Callable[..., list[Any]],
) -> None:
    catalogs = two_catalogs(tmp_path_factory, {Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10_000)})
    node = start(catalog_command(catalogs, energy_budget_j=1e6))
    results = film(lambda results: {result.model for result in results} == {"left", "right"})
    assert not any(result.error for result in results)
    assert imported_late(node) == []
