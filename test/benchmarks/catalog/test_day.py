# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Parts of the day in the life of a robot that need no nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import pytest
from catalogs import made_catalog

from benchmarks.catalog.day import POLICIES, Day, budget
from benchmarks.catalog.day_catalogs import without_variants
from benchmarks.catalog.plot import plot_day
from cacheinf_ros.catalog.variant import Cost, Place


def test_the_budget_by_hand(tmp_path: Path) -> None:
    """The budget agrees with one worked out by hand.

    200 requests of a model take 2 J each on the device, of which half is allowed, whatever the catalog states; it is
    loaded 5 times for 3 J; each costs 0.01 dollars in the cloud, 0.65 of the time.
    """
    costs = {Place.DEVICE: Cost(energy_j=1.0, load_energy_j=3.0), Place.CLOUD: Cost(money=0.01)}
    day = Day(day_s=100.0, rate_hz=2.0, energy_share=0.5, money_share=1.0)
    assert day.connected_share == pytest.approx(0.65)
    assert budget(day, [made_catalog(tmp_path, "room", costs)], 2.0) == pytest.approx((215.0, 1.3))


def test_a_robot_without_catalogs_has_the_original(tmp_path: Path) -> None:
    catalog = made_catalog(tmp_path / "all", "room", {Place.CLOUD: Cost(money=0.01)})
    alone = without_variants(catalog, tmp_path / "alone")
    assert [variant.name for variant in alone.catalog.variants] == ["original"]
    assert alone.file.name == "room" and alone.load("original").name == catalog.load("original").name


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    samples = [{"at_s": 0.0}, {"at_s": 1.0, "energy_left_j": 5.0, "money_left": 0.5}]
    figures = {"served_per_s": [8, 0], "refused_per_s": [0, 8], "samples": samples}
    policies = dict.fromkeys(POLICIES, figures)
    found: dict[str, Any] = {
        "away_s": [[0.5, 1.0]],
        "energy_budget_j": 10.0,
        "cloud_budget": 1.0,
        "policies": policies,
    }
    path = tmp_path / "day.png"
    plot_day(found, path)
    assert cv2.imread(str(path)) is not None
