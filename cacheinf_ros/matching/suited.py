# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which matching suits which mode of the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.mode import Mode

DEEPCACHE_EXPIRY = 10
"""Frames; DeepCache section 4.3: features that move with the picture are a little more wrong each time."""

_FOLLOWED: Mapping[Mode, MatcherName] = {  # what a mode can follow, of all that ``auto`` might find
    Mode.DENSE: MatcherName.IDENTITY,
    Mode.EXACT: MatcherName.IDENTITY,
    Mode.DEEPCACHE: MatcherName.DIAMOND_OPTIMISED,
    Mode.BOUNDED: MatcherName.AUTO,
}


@lru_cache(maxsize=16)  # asked for every frame
def usable(config: MatchingConfig, mode: Mode) -> MatchingConfig:
    """The same, but ``auto`` does not look for motion that the mode can make nothing of."""
    if config.matcher is not MatcherName.AUTO:
        return config
    return config.changed(matcher=_FOLLOWED[mode])


def matching_for(
    mode: Mode, *, threshold_db: float | None = None, matcher: MatcherName | None = None
) -> MatchingConfig:
    """What each mode is measured with where the user asks for nothing else: for deepcache the paper's matching,
    otherwise blocks at the same place, in exact mode identical ones.
    """
    config = MatchingConfig(matcher=MatcherName.IDENTITY)
    if mode is Mode.DEEPCACHE:
        config = config.changed(matcher=MatcherName.DIAMOND_OPTIMISED, expiry=DEEPCACHE_EXPIRY)
    elif mode is not Mode.BOUNDED:
        config = config.changed(threshold=math.inf)
    asked = {"threshold": threshold_db, "matcher": matcher}
    return config.changed(**{name: value for name, value in asked.items() if value is not None})
