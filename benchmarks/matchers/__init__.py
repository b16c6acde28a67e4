# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matchers that the package's own are compared with (DeepCache's Table 4)."""

from collections.abc import Callable, Mapping

from benchmarks.matchers.deepmon import DeepMon
from benchmarks.matchers.searches import Diamond, Exhaustive, ThreeStep
from cacheinf_ros.matching import Matcher, MatchingConfig

COMPARATORS: Mapping[str, Callable[[MatchingConfig], Matcher]] = {
    "diamond": Diamond,
    "exhaustive": Exhaustive,
    "three_step": ThreeStep,
    "deepmon": DeepMon,
}
"""By the name that reports call them; a configuration's own ``matcher`` does not count."""

__all__ = ["COMPARATORS", "DeepMon", "Diamond", "Exhaustive", "ThreeStep"]
