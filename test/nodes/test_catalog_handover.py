# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whatever becomes of catalogs that are named while the node runs, requests are answered."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from catalogs import made_catalog
from rclpy.parameter import Parameter

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.serving import CatalogConfig
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.errors import CatalogError, ConfigError
from cacheinf_ros.nodes.catalog_inference import CatalogInferenceNode
from cacheinf_ros.nodes.catalog_pipeline import CatalogPipeline
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.live_catalogs import LiveCatalogs
from cacheinf_ros.pipeline import Worker
from cacheinf_ros.pipeline.health import WorkState
from cacheinf_ros.pipeline.node_configs import ImageConfig
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 60.0
COSTS = {Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10_000)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        name: str(made_catalog(tmp_path_factory.mktemp(name), name, COSTS).path) for name in ("left", "right", "third")
    }


class Node(CatalogInferenceNode):
    """The node in a context of its own, with one catalog."""

    def __init__(self, context: Any, folder: str) -> None:
        FrameNode.__init__(
            self, "catalog_inference", CatalogConfig, ImageConfig, *CatalogPipeline.CONFIGS, context=context,
            parameter_overrides=[Parameter("catalogs", value=[folder])],
        )  # fmt: skip

    def name(self, *folders: str) -> None:
        (answer,) = self.set_parameters([Parameter("catalogs", value=list(folders))])
        assert answer.successful, answer.reason

    @property
    def said(self) -> dict[str, str]:
        return self.health.status(WorkState(), latency_budget_ms=1.0, stuck_after_s=1.0, now_s=0.0).values

    @property
    def works(self) -> bool:
        return not self._has_finished


@pytest.fixture
def node(context: Any, folders: dict[str, str]) -> Iterator[Node]:
    ours = Node(context, folders["left"])
    yield ours
    ours.close()
    ours.destroy_node()


class Taker:
    """What takes catalogs as the test wishes."""

    def __init__(self, node: Node) -> None:
        self.live = LiveCatalogs(node, CatalogConfig, self.take, self.go_on)
        self.answers: list[bool | ConfigError] = []
        self.taken: list[str] = []
        self.went_on: list[bool] = []

    def take(self, folders: Sequence[CatalogFolder]) -> bool:
        self.taken.append("+".join(folder.file.name for folder in folders))
        answer = self.answers.pop(0)
        if isinstance(answer, ConfigError):
            raise answer
        return answer

    def go_on(self) -> bool:
        self.went_on.append(len(self.went_on) > 0)
        return self.went_on[-1]

    def look(self, times: int = 1) -> None:
        """Let the timer fire, until what is being prepared is prepared."""
        for _ in range(times):
            self.live._look()
            assert wait_until(lambda: self.live._preparing is None, DEADLINE_S)


def test_what_cannot_be_used_is_said_once_and_the_former_ones_go_on(node: Node, folders: dict[str, str]) -> None:
    taker = Taker(node)
    taker.answers = [ConfigError("it splits no frames"), True]
    node.name(folders["right"])
    taker.look(5)
    assert taker.taken == ["right"]
    assert node.said["catalogs"].endswith("cannot be used, the former ones go on: it splits no frames")
    node.name(folders["left"])
    taker.look(2)
    assert taker.taken == ["right"] and "catalogs" not in node.said
    node.name(folders["right"])
    taker.look(3)
    assert taker.taken == ["right", "right"] and "catalogs" not in node.said


@pytest.mark.parametrize("then", ["left", "third"])
def test_a_node_that_is_about_to_take_some_goes_on_where_others_are_named(
    node: Node, folders: dict[str, str], then: str
) -> None:
    taker = Taker(node)
    taker.answers = [False, False, True]
    node.name(folders["right"])
    taker.look(3)
    assert taker.taken == ["right", "right"] and not taker.went_on
    node.name(folders[then])
    taker.look()
    assert taker.went_on == [False]
    taker.look(4)
    assert taker.went_on == [False, True]
    assert taker.taken == ["right", "right"] + ["third"] * (then == "third")


def test_a_request_at_hand_is_not_waited_for_by_the_executor(
    node: Node, folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it waits for may be a packet that only the executor's thread delivers."""
    node.trigger_configure()
    at_hand, delivered = threading.Event(), threading.Event()

    def answer(asked: Any) -> None:
        at_hand.set()
        delivered.wait(DEADLINE_S)

    monkeypatch.setattr(node._pipeline, "answer", answer)
    node.trigger_activate()
    arrival: Any = object()
    node._store_image(arrival)
    assert at_hand.wait(DEADLINE_S)
    waited_s: list[float] = []
    stop = Worker.stop

    def counted(worker: Worker[Any], timeout_s: float = 3.0) -> bool:
        waited_s.append(timeout_s)
        return stop(worker, timeout_s)

    monkeypatch.setattr(Worker, "stop", counted)
    node.name(folders["right"])
    right = node.parameters.get(CatalogConfig).read()
    assert not node._register(right) and not node._register(right)
    delivered.set()
    assert wait_until(lambda: node._register(right), DEADLINE_S)
    assert set(waited_s) == {0.0}
    assert node.works and tuple(node._pipeline.models) == ("right",)


def test_requests_go_on_where_registering_fails(node: Node, folders: dict[str, str], tmp_path: Any) -> None:
    """The device has no memory for the new model; the former one keeps what it has loaded."""
    node.trigger_configure()
    node.trigger_activate()
    served = node._pipeline._served
    served.device.load("left", "original")
    huge = made_catalog(tmp_path, "huge", {Place.DEVICE: Cost(memory_bytes=10**12)})
    node.name(str(huge.path))
    assert wait_until(node._ends_soon, DEADLINE_S)
    with pytest.raises(CatalogError, match="give the device more memory"):
        node._register([huge])
    assert node.works
    assert node._pipeline._served is served and tuple(node._pipeline.models) == ("left",)
    assert served.configs.get(CatalogConfig).catalogs == (folders["left"],)
    assert not served.device.load("left", "original")
