# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The actor that keeps the ledger looks after machines, whatever Ray answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sessions import until

from cacheinf_ros.fleet import ray_actors
from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.fleet.messages import GatewayReport


class Ray:
    """A replacement of Ray: it returns a growing list of nodes, or fails."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self.count = 1
        self.looks = 0

    def nodes(self) -> list[dict[str, Any]]:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return [{"NodeID": f"node{i}", "Alive": True, "Resources": {"CPU": 2.0}} for i in range(self.count)]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ray]:
    made = Ray()
    monkeypatch.setattr(ray_actors, "ray", lambda: made)
    monkeypatch.setattr(ray_actors, "_LOOK_S", 0.01)
    yield made
    made.failure = SystemExit()  # an actor ends with its process, a test does not
    until(lambda: all(thread.name != "look" for thread in threading.enumerate()))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # as the thread is ended
def test_machines_are_looked_after_again_when_ray_answers_again(ray: Ray, caplog: pytest.LogCaptureFixture) -> None:
    director = ray_actors.Director(FleetRules())
    assert [machine.name for machine in director.status().machines] == ["node0"]
    with caplog.at_level(logging.ERROR):
        ray.failure, failed_at = RuntimeError("the head is busy"), ray.looks
        until(lambda: ray.looks > failed_at + 5)
    complaint = director.report(GatewayReport(gateway="gateway")).complaint
    assert complaint == "the fleet's machines are not looked after: the head is busy"
    assert [record.getMessage() for record in caplog.records] == [complaint], "once, not at each look"
    ray.failure, ray.count = None, 2
    until(lambda: len(director.status().machines) == 2)
    until(lambda: not director.report(GatewayReport(gateway="gateway")).complaint)
