# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the parameters of the node that runs catalogs."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.catalog.scheduling.decision import Preference
from cacheinf_ros.catalog.serving.catalog_node_configs import (
    CatalogBudgetConfig,
    CatalogConfig,
    CatalogPolicy,
    CatalogServerConfig,
    in_places,
)
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.errors import CatalogError, ConfigError

DEVICE, SPLIT, CLOUD = Place.DEVICE, Place.SPLIT, Place.CLOUD


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"catalogs": ["a", "b"], "rates": [1.0, 2.0, 3.0]}, "3 rates for 2 catalogs: give one for each"),
        ({"catalogs": ["a"], "rates": [0.0]}, "give rates from 0.001 to 1000"),
        ({"catalogs": ["a"], "rates": [math.nan]}, "give rates from 0.001 to 1000"),
        ({"policy": "generous"}, "server_only"),
    ],
)
def test_unusable_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CatalogConfig.checked(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"energy_budget_j": -1.0}, "greater than or equal to 0"),
        ({"energy_budget_j": math.nan}, "greater than or equal to 0"),
        ({"budget_horizon_s": 0.0}, "greater than or equal to 1"),
    ],
)
def test_unusable_budgets(values: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CatalogBudgetConfig.checked(**values)


def test_values_as_ros_gives_them() -> None:
    config = CatalogConfig.checked(catalogs=["a", "b"], rates=array("d", [2.0]), policy="server_first")
    assert config.catalogs == ("a", "b") and config.rates_hz == (2.0, 2.0)
    assert CatalogConfig.checked(catalogs=[""]).catalogs == ()
    assert CatalogBudgetConfig().budget.energy_j == math.inf


@pytest.mark.parametrize(
    ("policy", "preference", "with_server", "without"),
    [
        (CatalogPolicy.ACCURACY, Preference.ACCURACY, {DEVICE, SPLIT, CLOUD}, {DEVICE}),
        (CatalogPolicy.SERVER_FIRST, Preference.SERVER_FIRST, {DEVICE, SPLIT, CLOUD}, {DEVICE}),
        (CatalogPolicy.DEVICE_FIRST, Preference.DEVICE_FIRST, {DEVICE, SPLIT, CLOUD}, {DEVICE}),
        (CatalogPolicy.SERVER_ONLY, Preference.ACCURACY, {CLOUD}, set()),
        (CatalogPolicy.DEVICE_ONLY, Preference.ACCURACY, {DEVICE}, {DEVICE}),
    ],
)
def test_policies(policy: CatalogPolicy, preference: Preference, with_server: set[Place], without: set[Place]) -> None:
    assert policy.preference is preference
    assert policy.places(use_server=True) == with_server
    assert policy.places(use_server=False) == without


def test_places_are_left_out() -> None:
    both = Variant(name="both", accuracy=1.0, costs={DEVICE: Cost(energy_j=1.0), CLOUD: Cost(money=1.0)})
    remote = Variant(name="remote", accuracy=0.5, costs={CLOUD: Cost(money=0.5)})
    catalog = in_places(Catalog(model="m", variants=(both, remote)), frozenset({DEVICE}))
    assert [variant.name for variant in catalog.variants] == ["both"]
    assert catalog.variants[0].costs == {DEVICE: Cost(energy_j=1.0)}
    with pytest.raises(CatalogError, match="no variant runs in: device"):
        in_places(Catalog(model="m", variants=(remote,)), frozenset({DEVICE}))


def test_nobody_to_ask() -> None:
    with pytest.raises(ConfigError, match=r"needs a server: set server\.use: true"):
        CatalogConfig.checked(policy="server_only").demands(())
    with pytest.raises(ConfigError, match="name folders that `cacheinf catalog build` has written"):
        CatalogConfig.checked().demands(())
    with pytest.raises(ConfigError, match="64 are the most"):
        CatalogConfig.checked(catalogs=["c"] * 65)


def test_price_by_hand() -> None:
    """Half a second of the server at 0.2 dollars a second, and 3 MB at 0.1 dollars."""
    config = CatalogBudgetConfig.checked(price_server_s=0.2, price_mb=0.1)
    assert config.prices.dollars(500.0, 3_000_000) == pytest.approx(0.1 + 0.3)


def test_a_catalog_that_does_not_exist() -> None:
    with pytest.raises(CatalogError, match=r"nowhere/catalog\.yaml cannot be read"):
        CatalogServerConfig.checked(catalogs=["nowhere"]).read()
