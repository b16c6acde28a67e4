# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Predictions of what was measured, for a small network and a report made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from workloads import MIXED, surroundings

from benchmarks.offload.measured_places import predicted_places, regret, representatives

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
    (place,) = predicted_places(MIXED, ONE_CORE_MS, report(**systems, remote=figures(10.0, 0.5)), schedule_s=0.5)
    assert (place["mbit_s"], place["speed"], place["reuse"]) == (1e6, 4.0, 0.5)
    dense = ONE_CORE_MS[:, -1].sum()
    assert place["predicted"]["local_dense"] == pytest.approx(4 * dense)
    assert place["predicted"]["local"] == pytest.approx(4 * _cached_ms(0.5))
    assert place["predicted"]["remote"] == pytest.approx(_cached_ms(0.5) + 2.0, rel=0.01)  # a delay of 1 ms each way
    assert place["measured"] == {"local_dense": 50.0, "local": 30.0, "remote": 10.0}
    assert "remote_jpeg" not in place["predicted"]  # which the map does not predict
    assert place["regret"] == 1.0


def test_a_wrong_choice_costs_its_time_over_the_best() -> None:
    assert regret({"local": 5.0, "remote": 6.0}, {"local": 12.0, "remote": 8.0}) == 1.5


def test_representatives_have_the_mean_of_all() -> None:
    assert np.mean(representatives([0.1] * 50 + [0.9] * 50)) == pytest.approx(0.5, abs=0.01)
    assert representatives([]) == [0.0]


def _cached_ms(reuse: float) -> float:
    from cacheinf_ros.offload.planning.partition_costs import at_share

    return float(at_share(ONE_CORE_MS, MIXED.active_at(reuse)[1:]).sum())
