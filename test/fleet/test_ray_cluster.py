# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whatever Ray raises, a gateway hears of one link that failed, and of processes that could not start."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet import ray_cluster
from cacheinf_ros.fleet.messages import GatewayReport, Place
from cacheinf_ros.fleet.ray_cluster import RayCluster
from cacheinf_ros.fleet.start_error import StartError

PLACE = Place(host="host", machine="head", gateway="gateway", is_new=True, memory_bytes=1e8, cores=1.0)


class RayError(Exception):
    """A replacement of Ray's base of all errors; ``actor_init_failed``: an actor's constructor has failed."""

    actor_init_failed = False


class Ray:
    """A replacement of Ray whose calls fail as they are told to; a reference is what a call returns."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self) -> None:
        self.failures: dict[str, Exception] = {}  # by the name of what is called
        self.killed: list[Any] = []
        self.is_shut_down = False

    def init(self, **options: Any) -> None:
        pass

    def shutdown(self) -> None:
        self.is_shut_down = True

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": "head", "Alive": True, "Resources": {"node:__internal_head__": 1.0}}]

    def remote(self, actor: type) -> Any:
        made = SimpleNamespace(remote=lambda *content: Actor(self))
        return SimpleNamespace(options=lambda **options: self.call("options") or made)

    def get(self, reference: Callable[[], Any], timeout: float | None = None) -> Any:
        return reference()

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        self.call("wait")
        return references, []

    def kill(self, actor: Any) -> None:
        self.call("kill")
        self.killed.append(actor)

    def call(self, name: str) -> Any:
        if name in self.failures:
            raise self.failures[name]
        return None


class Actor:
    """A replacement of an actor, each of whose methods can be called."""

    def __init__(self, ray: Ray) -> None:
        self._ray = ray

    def __getattr__(self, name: str) -> Any:
        def remote(*content: Any) -> Callable[[], Any]:
            self._ray.call(f"{name}.remote")
            return lambda: self._ray.call(name) or (("127.0.0.1", 1), b"key")

        return SimpleNamespace(remote=remote)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    made = Ray()
    monkeypatch.setattr(ray_cluster, "ray", lambda: made)
    monkeypatch.setattr(ray_cluster, "affinity", lambda node: node)
    return made


@pytest.fixture
def cluster(ray: Ray) -> RayCluster:
    made = RayCluster("local")
    made.start(PLACE, None)  # type: ignore[arg-type]
    return made


CALLS: dict[str, Callable[[RayCluster], Any]] = {
    "options": lambda cluster: cluster.start(PLACE, None),  # type: ignore[arg-type]
    "kill": lambda cluster: cluster.stop(PLACE.host),
    "lose_host.remote": lambda cluster: cluster.lose_host(PLACE.host),
    "end_host.remote": lambda cluster: cluster.end_host(PLACE.host),
    "leave.remote": lambda cluster: cluster.leave("robot", "gateway"),
    "report": lambda cluster: cluster.report(GatewayReport(gateway="gateway")),
}


@pytest.mark.parametrize(
    "error", [RayError("Ray is busy"), ConnectionError("Ray is busy"), RuntimeError("Ray is busy")]
)
@pytest.mark.parametrize("called", CALLS)
def test_whatever_ray_raises_is_a_link_that_failed(
    called: str, error: Exception, ray: Ray, cluster: RayCluster
) -> None:
    ray.failures[called] = error
    with pytest.raises(LinkError, match="Ray is busy"):
        CALLS[called](cluster)


def test_metrics_that_fail_are_a_link_that_failed(cluster: RayCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise RuntimeError("Ray is busy")

    metrics = SimpleNamespace(Gauge=fail, Counter=fail)
    monkeypatch.setattr(ray_cluster, "import_module", lambda name: metrics)
    with pytest.raises(LinkError, match="Ray is busy"):
        cluster.show({"sessions": 1.0}, "gateway")


def test_a_process_that_was_not_stopped_can_be_stopped_again(ray: Ray, cluster: RayCluster) -> None:
    ray.failures["kill"] = RayError("Ray is busy")
    with pytest.raises(LinkError):
        cluster.stop(PLACE.host)
    del ray.failures["kill"]
    cluster.stop(PLACE.host)
    assert len(ray.killed) == 1


def test_whoever_waits_for_a_process_hears_why_it_could_not_start(ray: Ray, cluster: RayCluster) -> None:
    failure = RayError("The actor died because of an error\nTraceback\nMessageError: start both with the same model")
    failure.actor_init_failed = True
    ray.failures["where"] = failure
    for _ in range(2):
        with pytest.raises(StartError, match=r"^host could not start: MessageError: start both"):
            cluster.reach(PLACE.host)


def test_a_process_that_was_lost_has_died(ray: Ray, cluster: RayCluster) -> None:
    ray.failures["where"] = RayError("The actor died unexpectedly")
    with pytest.raises(LinkError, match="host has died"):
        cluster.reach(PLACE.host)


def test_where_ray_does_not_answer_processes_stay_where_they_are_known(ray: Ray, cluster: RayCluster) -> None:
    known = cluster.reach(PLACE.host)
    assert known is not None
    ray.failures["wait"] = ConnectionError("Ray is busy")
    assert cluster.reach(PLACE.host) == known


def test_closing_goes_on_where_a_process_cannot_be_stopped(ray: Ray, cluster: RayCluster) -> None:
    ray.failures["kill"] = RayError("Ray is busy")
    cluster.close()
    assert ray.is_shut_down
