# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Three-step search (Koga et al., 1981), the other fast search that DeepCache's Table 4 compares with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.images import ImagePair
from cacheinf_ros.matching.search import recheck, search_all, unsettled


@dataclass(frozen=True, slots=True)
class ThreeStep:
    """Every block looks at its surroundings in steps that halve; then as the other searches."""

    config: MatchingConfig

    @property
    def name(self) -> str:
        """As :attr:`Matcher.name`."""
        return MatcherName.THREE_STEP.value

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """As :meth:`Matcher.match`."""
        pair = ImagePair.of(reference, frame)
        search = search_all(pair, self.config, in_three_steps=True)
        return recheck(pair, self.config, search.mean_offset(), unsettled(pair, self.config))
