# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Catalogs that are still being prepared are not used, and their rates wait with them."""

from __future__ import annotations

from typing import Any

from cacheinf_ros.catalog.serving import CatalogConfig, CatalogsInUse
from cacheinf_ros.config import C
from cacheinf_ros.engine import EngineConfig


class Parameters:
    """The parameters that a user has set."""

    def __init__(self) -> None:
        self.configs: dict[type[Any], Any] = {
            CatalogConfig: CatalogConfig(catalogs=("a",), rates=(2.0,)), EngineConfig: EngineConfig(),
        }  # fmt: skip

    def get(self, cls: type[C]) -> C:
        config = self.configs[cls]
        assert isinstance(config, cls)
        return config

    def set(self, **values: Any) -> None:
        self.configs[CatalogConfig] = self.get(CatalogConfig).changed(**values)


def test_other_catalogs_and_their_rates_count_once_they_are_used() -> None:
    parameters = Parameters()
    configs = CatalogsInUse(parameters)
    parameters.set(rates=(3.0,))
    assert configs.get(CatalogConfig).rates_hz == (3.0,)
    parameters.set(catalogs=("a", "b"), rates=(1.0, 5.0))
    assert configs.get(CatalogConfig).rates_hz == (3.0,)
    configs = CatalogsInUse(parameters)
    assert configs.get(CatalogConfig).rates_hz == (1.0, 5.0)
    parameters.set(rates=(4.0,))
    assert configs.get(CatalogConfig).rates_hz == (4.0, 4.0)


def test_all_else_is_followed_while_other_catalogs_are_named_that_may_never_be_used() -> None:
    parameters = Parameters()
    configs = CatalogsInUse(parameters)
    parameters.set(catalogs=("b", "c"), specialise=False, rates=(7.0,))
    found = configs.get(CatalogConfig)
    assert (found.catalogs, found.specialise) == (("a",), False)
    assert found.rates_hz != (7.0,), "these are for the catalogs that are to come"
    assert configs.get(CatalogConfig) is found
    parameters.set(rates=(7.0,))
    assert configs.get(CatalogConfig).rates_hz == (7.0,), "set alone, they are for all"
    parameters.set(rates=(1.0, 2.0), specialise=True)  # these are for the catalogs that are to come
    found = configs.get(CatalogConfig)
    assert (found.catalogs, found.specialise, found.rates_hz) == (("a",), True, (7.0,))
    parameters.set(catalogs=("a",), rates=(3.0,))
    assert configs.get(CatalogConfig).rates_hz == (3.0,)


def test_other_configurations_are_the_current_ones() -> None:
    parameters = Parameters()
    configs = CatalogsInUse(parameters)
    parameters.set(catalogs=("b",))
    parameters.configs[EngineConfig] = EngineConfig(threads=3)
    assert configs.get(EngineConfig).threads == 3
