# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Fixtures: real node processes over DDS in a domain of their own, and a station as camera, listener and rqt."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from forked_nodes import ForkedGroup, NodeFork

from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.nodes.spinning import ListeningNode
from cacheinf_ros.pipeline.polling import wait_until

TINY = f"{Path(__file__).parents[1] / 'networks' / 'tiny.py'}:tiny"
DEADLINE_S = 60.0
ANSWER_S = 5.0
LOSSLESS = {"queue_size": 1000, "expiry": 10_000, "image_reliability": "reliable", "image_topic": "camera/image"}


class Station(ListeningNode):
    """The counterpart of the nodes: publishes images, keeps results and diagnostics, and sets parameters."""

    def __init__(self, domain: int) -> None:
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import CompressedImage, Image

        from cacheinf_ros.msg import CacheMap, InferenceResult

        super().__init__("station", domain)
        self.results: list[Any] = []
        self.maps: list[Any] = []
        many = QoSProfile(depth=1000)
        self._cameras = {
            Image: self.node.create_publisher(Image, "camera/image", many),
            CompressedImage: self.node.create_publisher(CompressedImage, "camera/image/compressed", many),
        }
        self.node.create_subscription(InferenceResult, "results", self.results.append, many)
        self.node.create_subscription(CacheMap, "cache_map", self.maps.append, many)

    def camera(self, message: Any) -> Any:
        """Return the publisher for messages of this type."""
        return self._cameras[type(message)]

    def publish(self, *messages: Any) -> None:
        for message in messages:
            self.camera(message).publish(message)

    def wait_for_nodes(self, message: Any, subscribers: int) -> None:
        """Wait until that many nodes receive images of this type, and this station receives their results."""
        camera = self.camera(message)
        self.diagnostics.clear()  # forget nodes that have ended
        assert wait_until(lambda: self._told("image_publishers") == subscribers, DEADLINE_S)
        assert wait_until(lambda: camera.get_subscription_count() == subscribers, DEADLINE_S)
        self.wait_for_publisher()

    def wait_for_publisher(self) -> None:
        """Wait until a node that publishes results knows that this station receives them.

        It may discover the station later than the station discovers it, and what it sent by then is lost.
        """
        assert wait_until(lambda: self._told("result_subscribers") == 1, DEADLINE_S)
        assert wait_until(lambda: self.node.count_publishers("results") == 1, DEADLINE_S)

    def _told(self, count: str) -> int:
        """Return how many nodes report that they know of at least one publisher or subscriber of this kind."""
        return sum(int(self.said(node).get(count, 0)) > 0 for node in list(self.diagnostics))

    def expect(self, count: int, timeout_s: float = DEADLINE_S) -> list[Any]:
        """Wait until there are so many results, check that no more come, and return them."""
        wait_until(lambda: len(self.results) >= count, timeout_s)
        time.sleep(0.2)
        assert len(self.results) == count
        return list(self.results)

    def answer(self, image: Any) -> Any:
        """Publish an image and return its result; check that no earlier image has had a second one meanwhile."""
        before = len(self.results)
        self.publish(image)
        assert wait_until(lambda: len(self.results) > before, DEADLINE_S)
        assert len(self.results) == before + 1
        assert self.results[-1].header == image.header
        return self.results[-1]

    def wait_for_results(self, count: int) -> None:
        assert wait_until(lambda: len(self.results) >= count, DEADLINE_S)

    def clear(self) -> None:
        self.results.clear()
        self.maps.clear()

    def ask(self, service: str, service_type: type[Any], **values: Any) -> Any:
        """Return a service's reply."""
        return self._asked(service, service_type, service_type.Request(**values))[0]

    def set_parameters(self, node: str, **values: Any) -> tuple[list[Any], float]:
        """Set parameters; returns the service's results, and after how many seconds they came."""
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter

        parameters = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        request = SetParameters.Request(parameters=parameters)
        response, elapsed = self._asked(f"{node}/set_parameters", SetParameters, request)
        return list(response.results), elapsed

    def _asked(self, service: str, service_type: type[Any], request: Any) -> tuple[Any, float]:
        """Call a service; returns the reply, and after how many seconds it came.

        The request is repeated where no reply comes: a killed node still counts as a server for a while, and a new one
        may not know its client yet.
        """
        client = self.node.create_client(service_type, service)
        assert client.wait_for_service(DEADLINE_S)
        deadline, answered = time.monotonic() + DEADLINE_S, threading.Event()
        while not answered.is_set():
            assert time.monotonic() < deadline
            start, answered = time.perf_counter(), threading.Event()
            future = client.call_async(request)
            future.add_done_callback(lambda _, answered=answered: answered.set())
            answered.wait(ANSWER_S)
        elapsed = time.perf_counter() - start
        self.call(lambda: self.node.destroy_client(client))
        return future.result(), elapsed


@pytest.fixture
def context() -> Iterator[Any]:
    """Provide a context of its own for nodes in this process."""
    context = rclpy.Context()
    rclpy.init(context=context)
    yield context
    rclpy.try_shutdown(context=context)


@pytest.fixture(scope="session")
def node_fork(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeFork]:
    """Provide a process that forks nodes, which saves their imports."""
    fork = NodeFork(TINY, tmp_path_factory.mktemp("fork") / "fork.log")
    yield fork
    fork.close()


@pytest.fixture(scope="module")
def nodes(domain: int, node_fork: NodeFork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeGroup]:
    with ForkedGroup(node_fork, tmp_path_factory.mktemp("nodes"), domain=domain) as group:
        yield group


@pytest.fixture(scope="module")
def new_nodes(domain: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeGroup]:
    """Provide nodes that start as a robot's do, imports and all."""
    with NodeGroup(tmp_path_factory.mktemp("new_nodes"), domain=domain) as group:
        yield group


@pytest.fixture(scope="module")
def shared_station(domain: int) -> Iterator[Station]:
    with Station(domain) as station:
        yield station


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """What most tests need: nodes to start, the station beside them, images and commands for both."""

    nodes: NodeGroup
    station: Station
    image: Callable[..., Any]
    command: Callable[..., NodeCommand]


@pytest.fixture
def rig(
    nodes: NodeGroup, station: Station, camera_image: Callable[..., Any], inference_command: Callable[..., NodeCommand]
) -> Rig:
    return Rig(nodes=nodes, station=station, image=camera_image, command=inference_command)


@pytest.fixture
def station(shared_station: Station) -> Station:
    shared_station.clear()
    return shared_station


@pytest.fixture(scope="session")
def inference_command() -> Callable[..., NodeCommand]:
    """Return a function that makes commands of inference or cached_inference nodes with the tiny network."""

    def make(executable: str, **parameters: Any) -> NodeCommand:
        common = {"model": TINY, "result_topic": "results", "threads": 1, **LOSSLESS}
        return NodeCommand(executable=executable, parameters={**common, **parameters})

    return make


@pytest.fixture(scope="session")
def camera_image() -> Callable[..., Any]:
    """Return a function that makes image messages as a camera driver would; the picture depends on ``seed``."""
    import cv2
    from image_messages import image_message
    from std_msgs.msg import Header

    from cacheinf_ros.nodes.conversions import compressed_message, time_message

    def make(stamp_ns: int, encoding: str = "bgr8", size: tuple[int, int] = (48, 64), seed: int = 0) -> Any:
        header = Header(stamp=time_message(stamp_ns), frame_id="camera")
        image = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
        if encoding == "jpeg":
            return compressed_message(header, image)
        message = image_message(header, cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) if encoding == "mono8" else image)
        message.encoding = encoding
        return message

    return make


@pytest.fixture
def film(station: Any, camera_image: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return a function that publishes images until a condition on the results holds, and returns these results."""
    numbers = count(time.time_ns() // 10_000_000)

    def until(condition: Callable[[list[Any]], bool]) -> list[Any]:
        station.clear()
        deadline = time.monotonic() + DEADLINE_S
        while not condition(list(station.results)):
            assert time.monotonic() < deadline, [(r.where, r.error, r.why) for r in station.results[-5:]]
            number = next(numbers)
            station.publish(camera_image(number * 10_000_000, seed=number % 3))
            time.sleep(0.02)
        return list(station.results)

    return until
