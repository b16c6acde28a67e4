# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plain diamond search: every block is searched. The baseline of :mod:`.diamond_optimised`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.images import ImagePair
from cacheinf_ros.matching.search import recheck, search_by_diamond, unsettled


@dataclass(frozen=True, slots=True)
class Diamond:
    """DeepCache section 4 without its two short cuts."""

    config: MatchingConfig

    @property
    def name(self) -> str:
        """As :attr:`Matcher.name`."""
        return MatcherName.DIAMOND.value

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """As :meth:`Matcher.match`."""
        pair = ImagePair.of(reference, frame)
        search, _ = search_by_diamond(pair, self.config, skip=1)
        return recheck(pair, self.config, search.mean_offset(), unsettled(pair, self.config))
