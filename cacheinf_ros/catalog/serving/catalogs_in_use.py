# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which catalogs a node serves from, while others that the user has named are still being prepared."""

from __future__ import annotations

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.config import C, CurrentConfigs


class CatalogsInUse:
    """A node's configurations, of which those about catalogs stay as they are until :meth:`take`.

    Rates are told by their place among the catalogs, so that they wait with these.
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
