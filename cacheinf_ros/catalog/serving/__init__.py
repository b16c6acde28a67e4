# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Several models on one camera, asked at their own rates and served from catalogs."""

from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.serving.budget_report import BudgetReport
from cacheinf_ros.catalog.serving.catalog_node_configs import (
    CatalogBudgetConfig,
    CatalogConfig,
    CatalogFoldersConfig,
    CatalogServerConfig,
)
from cacheinf_ros.catalog.serving.catalogs_in_use import CatalogsInUse
from cacheinf_ros.catalog.serving.contact import Contact
from cacheinf_ros.catalog.serving.partitioned_models import SplitModels, identity_of_variant
from cacheinf_ros.catalog.serving.request_queue import Asked, RequestQueue

__all__ = [
    "Announcer", "Asked", "BudgetReport", "CatalogBudgetConfig", "CatalogConfig", "CatalogFoldersConfig",
    "CatalogServerConfig", "CatalogsInUse", "Contact", "RequestQueue", "SplitModels", "identity_of_variant",
]  # fmt: skip

# Importing these loads all that serves on the robot, which a server does without.
__all__ += ["catalog_service", "device_models"]
