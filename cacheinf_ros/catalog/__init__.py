# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""MCDNN: variants of a model, and which of them runs where under budgets of energy and money."""

from cacheinf_ros.catalog.catalog_folder import CatalogFolder, VariantEntry, prepare_catalogs, read_catalog
from cacheinf_ros.catalog.prices import PriceConfig
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.catalog.variant import Catalog, Cost, Place

__all__ = [
    "Catalog", "CatalogFolder", "Cost", "Place", "PriceConfig", "VariantEntry", "prepare_catalogs", "read_catalog",
    "trunk_model",
]  # fmt: skip

# Subpackages with interfaces of their own.
__all__ += ["build", "heads", "scheduling", "serving", "specialists"]
# The data for training.
__all__ += ["labelled_pictures"]
