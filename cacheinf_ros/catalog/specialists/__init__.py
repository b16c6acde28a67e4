# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Small classifiers for the classes that a stream shows now (MCDNN, section 5.2.1)."""

from cacheinf_ros.catalog.specialists.cascade import Verdict, cascade
from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.retarget import Made, Rejected, make_specialist
from cacheinf_ros.catalog.specialists.specialiser import Answered, Prepare, SkewRules, Specialiser, Withdraw
from cacheinf_ros.catalog.specialists.specialist import Specialist
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, original_name, read_specialise

__all__ = [
    "Answered", "Dominance", "Made", "Pair", "Prepare", "Rejected", "SkewRules", "SpecialiseFolder", "Specialiser",
    "Specialist", "Verdict", "Withdraw", "cascade", "make_specialist", "original_name", "read_specialise",
]  # fmt: skip
