# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The catalogs that a node serves from while others, named by the user, are still being prepared."""

from __future__ import annotations

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.config import C, CurrentConfigs


class CatalogsInUse:
    """A node's configurations, in which the catalogs stay what they are.

    Rates belong to catalogs by their position in the list. Those that are set together with other catalogs are for
    these. While other catalogs are named, rates that are set alone are followed, as long as there is one for all, or
    one for each of the catalogs in use.
    """

    def __init__(self, parameters: CurrentConfigs) -> None:
        """Use the catalogs that the parameters name now."""
        self._parameters = parameters
        self._named = self._config = parameters.get(CatalogConfig)

    def get(self, cls: type[C]) -> C:
        """Return the current configuration of a class."""
        config = self._parameters.get(cls)
        if not isinstance(config, CatalogConfig):
            return config
        if config is not self._named:
            self._config = self._with_catalogs_in_use(config)
            self._named = config
        held = self._config
        assert isinstance(held, cls)
        return held

    def _with_catalogs_in_use(self, config: CatalogConfig) -> CatalogConfig:
        catalogs, rates = self._config.catalogs, self._config.rates
        if config.catalogs == catalogs:
            return config
        is_for_these = config.catalogs == self._named.catalogs and len(config.rates) in (1, len(catalogs))
        return config.changed(catalogs=catalogs, rates=config.rates if is_for_these else rates)
