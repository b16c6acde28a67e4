# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""DeepCache's matcher (MobiCom'18, section 4): diamond search with k-skip and reuse of PSNRs already computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.geometry import ImagePair
from cacheinf_ros.matching.block_matching import recall, recheck, search_by_diamond
from cacheinf_ros.matching.config import MatcherName, MatchingConfig


@dataclass(frozen=True, slots=True)
class DiamondOptimised:
    """Search every ``k_skip``-th block in each direction, then re-check every block at the mean movement."""

    config: MatchingConfig

    @property
    def name(self) -> str:
        """As :attr:`Matcher.name`."""
        return MatcherName.DIAMOND_OPTIMISED.value

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """As :meth:`Matcher.match`."""
        pair = ImagePair.of(reference, frame)
        search, visits = search_by_diamond(pair, self.config, self.config.k_skip)
        offset = search.mean_offset()
        verdicts = recall(pair, self.config, offset, visits, search.skip)
        return recheck(pair, self.config, offset, verdicts)
