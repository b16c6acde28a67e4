# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The catalogs that a node serves from while others, named by the user, are still being prepared."""

from __future__ import annotations

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.config import C, CurrentConfigs


class CatalogsInUse:
    """A node's configurations, among which those about catalogs do not change until :meth:`take`.

    Rates belong to catalogs by their position in the list, so that they wait together with the catalogs.
    """

    def __init__(self, parameters: CurrentConfigs) -> None:
        """Use the catalogs that the parameters name now."""
        self._parameters = parameters
        self._config = parameters.get(CatalogConfig)

    def get(self, cls: type[C]) -> C:
        """Return the current configuration of a class."""
        config = self._parameters.get(cls)
        if not isinstance(config, CatalogConfig):
            return config
        if config.catalogs == self._config.catalogs:
            self._config = config
        held = self._config
        assert isinstance(held, cls)
        return held

    def take(self) -> None:
        """Use the catalogs that the parameters name now."""
        self._config = self._parameters.get(CatalogConfig)
