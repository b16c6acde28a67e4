# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server that does not know its operators' times says so, and no frame is planned with it."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from lowered import graph_of
from networks.shared_models import mixed_model
from oracle import assert_result_equals_dense
from sessions import ENGINE, both, until
from torch import nn

from cacheinf_ros.engine import PartitionSpace, PartitionWorker, Side
from cacheinf_ros.engine.backends import backend_choice
from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.fleet.model_demand import ModelDemand
from cacheinf_ros.graph.ir import Conv
from cacheinf_ros.offload.protocol.greeting import Identity
from cacheinf_ros.offload.protocol.server_profile import profile_objection
from cacheinf_ros.offload.row_workers import RowWorkers

MODEL = mixed_model()
LAYOUT = lay_out(MODEL.graph)
SPACE = PartitionSpace(LAYOUT)
NO_TIME, SOME_TIME = [0.0] * len(POINTS), list(POINTS)
CONVOLUTIONS = {o.output for o in LAYOUT.operators if isinstance(o, Conv)}
UNTIMED = {
    "nothing": [],
    "zeros": [NO_TIME] * len(SPACE.heights),
    "times of what costs little": [NO_TIME if name in CONVOLUTIONS else SOME_TIME for name in SPACE.heights],
    "times of a part": [[*SOME_TIME[:-1], 0.0]] * len(SPACE.heights),
}


@pytest.mark.parametrize("kind", UNTIMED)
def test_a_server_without_times_is_refused_until_it_has_some(kind: str) -> None:
    image = np.random.default_rng(0).integers(0, 256, (90, 80, 3), np.uint8)
    with both(MODEL) as sessions:
        engine, robot = sessions.engine, sessions.robot
        assert engine.shared is not None
        sessions.profile = UNTIMED[kind]
        until(lambda: "states no times for its operators" in robot.complaint, robot.poll)
        assert "it is not planned with" in robot.complaint
        partner = robot.frame(lambda _: SPACE.everything_at(Side.SERVER))
        assert partner is None
        assert_result_equals_dense(engine, engine.run(image, None, partner), image)
        sessions.stop_server()
        sessions.profile = None
        sessions.start_server()
        sessions.connect()
        result = engine.run(image, None, robot.frame(lambda _: SPACE.everything_at(Side.SERVER)))
        assert engine.shared.was_shared
        assert_result_equals_dense(engine, result, image)


def test_what_is_no_profile_is_told_apart() -> None:
    for profile in ([SOME_TIME], [[1.0]] * len(SPACE.heights), [[-1.0] * len(POINTS)] * len(SPACE.heights)):
        assert "not one of this network" in profile_objection(SPACE, profile)
    times = {name: SOME_TIME if i else NO_TIME for i, name in enumerate(SPACE.heights)}
    assert not profile_objection(SPACE, list(times.values()))  # some operators may be too small to be timed


def test_a_network_without_convolutions_takes_time_all_the_same() -> None:
    space = PartitionSpace(lay_out(graph_of(nn.MaxPool2d(2), (8, 8))))
    assert space.costly == set(space.heights)
    assert "states no times" in profile_objection(space, [NO_TIME])
    assert not profile_objection(space, [SOME_TIME])


def test_times_that_could_not_be_measured_are_not_stated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backend_choice, "kernel_library", lambda: None)
    asked, partition, workers = Identity.of(MODEL), PartitionWorker(MODEL, ENGINE), RowWorkers()
    with caplog.at_level(logging.WARNING, "cacheinf_ros.offload"):
        assert [workers.worker(asked, partition).profile for _ in range(2)] == [[], []]
    (text,) = [record.getMessage() for record in caplog.records if "timed" in record.getMessage()]  # once a network
    assert "could not be timed on cpu" in text and "make build" in text


@pytest.mark.skipif(backend_choice.kernel_library() is None, reason="needs compiled kernels")
def test_times_that_were_measured_are_stated() -> None:
    stated = RowWorkers().worker(Identity.of(MODEL), PartitionWorker(MODEL, ENGINE)).profile
    assert not profile_objection(SPACE, stated)


def test_a_server_without_times_asks_a_fleet_for_memory_only() -> None:
    demand = ModelDemand(MODEL, ENGINE)
    assert demand.predicted_ms(np.array([])) == (0.0, 0.0)
    assert demand.predicted_ms(np.array([SOME_TIME] * len(SPACE.heights))) > (0.0, 0.0)
