# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""MCDNN: variants of a model, and which of them runs where under budgets of energy and money."""

from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant

__all__ = ["Catalog", "Cost", "Place", "Variant"]
