# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The map of which policy is best where, for a small network."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest
from workloads import MIXED, surroundings

from benchmarks.offload.policy_map import BASELINES, beside_everything, plot_policy_map, policy_map

ROBOT_MS = surroundings(MIXED, 3, 1.0).robot_ms


def test_ours_is_the_best_everywhere(tmp_path: Path) -> None:
    """No policy is predicted to be faster than ours, which sends nothing over a slow link."""
    places = policy_map(MIXED, ROBOT_MS, mbit_s=(0.01, 1000.0), speeds=(1.0, 20.0), reuse=(0.0, 0.9), schedule_s=0.5)
    assert len(places) == 8
    for place in places:
        assert place["ms"]["cacheinf"] <= 1.05 * min(place["ms"][name] for name in BASELINES)  # of a short search
        assert place["over_best"] >= 1.0 - 1e-9
        if place["mbit_s"] < 1:
            assert place["ms"]["cacheinf"] == pytest.approx(place["ms"]["local"])
    path = tmp_path / "map.png"
    plot_policy_map(places, path)
    assert cv2.imread(str(path)) is not None


def test_merged_caches_are_compared_by_hand() -> None:
    within = {"reuse": 0.5, "ms": {**dict.fromkeys(BASELINES, 30.0), "cacheinf": 12.0, "searched": 12.0}}
    everything = {"ms": {**dict.fromkeys(BASELINES, 20.0), "dnn_surgery": 16.0, "cacheinf": 11.0, "searched": 10.0}}
    (place,) = beside_everything([within], [everything])
    assert place["best_baseline"] == "dnn_surgery"  # without a cache it may cut where no map is kept
    assert (place["reuse"], place["over_baseline"], place["over_best"]) == (0.5, 0.75, 1.0)
    assert place["over_everything"] == pytest.approx(1.2)
