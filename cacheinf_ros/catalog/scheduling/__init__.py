# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Scheduling: which variant serves a request, and where (MCDNN's algorithm 1)."""

from cacheinf_ros.catalog.scheduling.budgets import Account, Budget
from cacheinf_ros.catalog.scheduling.cost_correction import CostCorrection
from cacheinf_ros.catalog.scheduling.decision import Decision, Demand, Load, Option, Preference, Why, options_of
from cacheinf_ros.catalog.scheduling.load_price import price_factor
from cacheinf_ros.catalog.scheduling.loaded_variants import SharedPart
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler

__all__ = [
    "Account", "Budget", "CostCorrection", "Decision", "Demand", "Load", "Option", "Preference", "Scheduler",
    "SharedPart", "Why", "options_of", "price_factor",
]  # fmt: skip
