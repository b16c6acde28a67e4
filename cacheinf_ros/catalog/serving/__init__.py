# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Several models on one camera, each asked at its own rate and served from a catalog."""

from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.serving.budget_report import BudgetReport, whole_frames_prefix
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
    "whole_frames_prefix",
]  # fmt: skip

# Not imported here: these load the robot's serving code, which a server does not need.
__all__ += ["catalog_service", "device_models", "serving_places"]
