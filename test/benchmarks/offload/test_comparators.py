# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The systems that ours are compared with: their outputs too are those of dense execution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dividing import SIZES, connected, run_frames, solved
from sessions import ENGINE, Both

from benchmarks.offload import setting
from benchmarks.offload.comparators import ONLY_LAYERS, SYSTEMS
from benchmarks.offload.layer_cuts import LayerCuts
from cacheinf_ros.offload.planning import Machines, ScheduleTable, Workload


@pytest.fixture(scope="module", params=SIZES, ids=lambda name: Path(name.rpartition(":")[2]).stem)
def sessions(request: pytest.FixtureRequest) -> Iterator[Both]:
    with connected(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def known(sessions: Both) -> tuple[Workload, Machines, ScheduleTable]:
    return solved(sessions)


@pytest.mark.parametrize("name", ["dnn_surgery", "dnn_surgery_cached", "hybrid_parallel"])
def test_outputs_equal_dense(sessions: Both, known: tuple[Workload, Machines, ScheduleTable], name: str) -> None:
    system = SYSTEMS[name]
    scheduler = LayerCuts(*known, only_layers=lambda: bool(system.parameters[ONLY_LAYERS]))
    sessions.engine.configure(ENGINE.changed(mode=system.robot))
    partitions = run_frames(sessions, scheduler, system.policy)
    assert any(partition is not None for partition in partitions)


def test_what_is_installed_is_measured_as_it_is_without_them() -> None:
    for name, system in setting.SYSTEMS.items():
        assert SYSTEMS[name].parameters == {ONLY_LAYERS: False}
        assert (SYSTEMS[name].policy, SYSTEMS[name].robot) == (system.policy, system.robot)
