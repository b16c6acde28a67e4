# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rematerialisation: chooses which maps to keep between frames and which to compute anew (CacheInf section 4.3)."""

from cacheinf_ros.engine.rematerialisation.assess import Assessment, Assessor
from cacheinf_ros.engine.rematerialisation.map_choice import Choices, load_or_choose, search_all
from cacheinf_ros.engine.rematerialisation.regions import RegionModel, Regions

__all__ = [
    "Assessment", "Assessor", "Choices", "RegionModel", "Regions", "load_or_choose", "search_all",
]  # fmt: skip
