# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Exhaustive search: the best of all places within ``search_range``. Slow; what the diamond search approximates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.images import ImagePair
from cacheinf_ros.matching.search import recheck, search_all, unsettled


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Search every block at (2 ``search_range`` + 1)^2 places, then re-check every block at the mean movement."""

    config: MatchingConfig

    @property
    def name(self) -> str:
        """As :attr:`Matcher.name`."""
        return MatcherName.EXHAUSTIVE.value

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """As :meth:`Matcher.match`."""
        pair = ImagePair.of(reference, frame)
        search = search_all(pair, self.config, in_three_steps=False)
        return recheck(pair, self.config, search.mean_offset(), unsettled(pair, self.config))
