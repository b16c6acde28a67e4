# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Predictions of what was measured, for a small network and a report made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks.shared_models import mixed_model
from workloads import MIXED, surroundings

from benchmarks.offload.command import offload_check
from benchmarks.offload.measured_places import observed_activities, predicted_places, regret
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.offload.planning import Workload
from cacheinf_ros.offload.planning.partition_costs import at_share

ONE_CORE_MS = surroundings(MIXED, 3, 1.0).robot_ms


def figures(mean_ms: float, reuse: float, **more: Any) -> dict[str, Any]:
    return {"latency_ms": {"mean": mean_ms}, "reuse_ms": [(reuse, mean_ms)] * 3, **more}


def report(**systems: dict[str, Any]) -> dict[str, Any]:
    fast, trace = {"mbit_s": 1e6, "systems": systems}, {"mbit_s": 9.0, "systems": {"local": figures(1.0, 0.0)}}
    trace["systems"]["local"]["frames_ms"] = [1.0]
    return {"robot_cores": 0.25, "wire_image": "png", "bandwidth": {"1e6": fast, "indoor": trace}}


def test_a_slow_robot_is_predicted_by_hand() -> None:
    """A quarter of a processor takes four times as long; over a fast link the server takes what one processor takes."""
    systems = {"local_dense": figures(50.0, 0.0), "local": figures(30.0, 0.5), "remote_jpeg": figures(9.0, 0.5)}
    scattered = np.full(len(MIXED.heights), 0.8)
    scattered[0] = 0.5
    (place,) = predicted_places(
        MIXED, ONE_CORE_MS, report(**systems, remote=figures(10.0, 0.5)), [scattered] * 3, schedule_s=0.5
    )
    assert (place["mbit_s"], place["speed"], place["reuse"]) == (1e6, 4.0, 0.5)
    dense, cached = ONE_CORE_MS[:, -1].sum(), at_share(ONE_CORE_MS, scattered[1:]).sum()
    together = at_share(ONE_CORE_MS, MIXED.active_at(0.5)[1:]).sum()
    assert place["predicted"]["local_dense"] == place["by_map"]["local_dense"] == pytest.approx(4 * dense)
    assert place["predicted"]["local"] == pytest.approx(4 * cached)
    assert place["by_map"]["local"] == pytest.approx(4 * together)
    assert place["predicted"]["remote"] == pytest.approx(cached + 2.0, rel=0.01)  # a delay of 1 ms each way
    assert place["measured"] == {"local_dense": 50.0, "local": 30.0, "remote": 10.0}
    assert "remote_jpeg" not in place["predicted"]  # which the map does not predict
    assert place["regret"] == 1.0
    assert place["reads_as"] == pytest.approx(MIXED.reuse_at(scattered))


def test_a_wrong_choice_costs_its_time_over_the_best() -> None:
    assert regret({"local": 5.0, "remote": 6.0}, {"local": 12.0, "remote": 8.0}) == 1.5


def test_activities_are_those_of_the_frames() -> None:
    """In each frame of the built-in scene with a fixed camera a part changes, and never all."""
    engine = Engine(mixed_model(), EngineConfig(threads=1), with_server=True)
    workload = Workload(engine.program.layout)
    played = {"source": "scene:fixed", "threshold": 100.0, "warm": 2, "frames": 5}
    activities = observed_activities(played, engine, workload)
    assert len(activities) == 5
    everything = observed_activities({**played, "warm": 0, "frames": 7}, engine, workload)
    assert np.array_equal(activities, everything[2:])
    for active in activities:
        assert active.shape == workload.heights.shape
        assert 0 < active[0] < 1


def test_a_report_without_a_policy_that_is_predicted_is_refused() -> None:
    active = [np.ones(len(MIXED.heights))]
    with pytest.raises(ConfigError, match="none is predicted; known are local_dense, "):
        predicted_places(MIXED, ONE_CORE_MS, report(remote_jpeg=figures(9.0, 0.5)), active, schedule_s=0.1)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is no JSON file"), ("[1]", "is no report of"), ('{"bandwidth": {}}', "is no report of")]
)
def test_what_is_no_report_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"report.json {said}"):
        offload_check(file)
