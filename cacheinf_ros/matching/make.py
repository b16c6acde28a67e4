# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Name -> matcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cacheinf_ros.matching.auto import Auto
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.deepmon import DeepMon
from cacheinf_ros.matching.diamond import Diamond
from cacheinf_ros.matching.diamond_optimised import DiamondOptimised
from cacheinf_ros.matching.exhaustive import Exhaustive
from cacheinf_ros.matching.field import Field
from cacheinf_ros.matching.homography import Homography
from cacheinf_ros.matching.identity import Identity
from cacheinf_ros.matching.matcher import Matcher
from cacheinf_ros.matching.three_step import ThreeStep

_MATCHERS: Mapping[MatcherName, Callable[[MatchingConfig], Matcher]] = {
    MatcherName.DIAMOND_OPTIMISED: DiamondOptimised,
    MatcherName.DIAMOND: Diamond,
    MatcherName.EXHAUSTIVE: Exhaustive,
    MatcherName.THREE_STEP: ThreeStep,
    MatcherName.DEEPMON: DeepMon,
    MatcherName.IDENTITY: Identity,
    MatcherName.HOMOGRAPHY: Homography,
    MatcherName.FIELD: Field,
    MatcherName.AUTO: Auto,
}


def make_matcher(config: MatchingConfig) -> Matcher:
    """The matcher that the configuration names."""
    return _MATCHERS[config.matcher](config)
