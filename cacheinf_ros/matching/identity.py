"""The trivial matcher: a block is compared with the same place of the reference, and with nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.images import ImagePair
from cacheinf_ros.matching.search import recheck, unsettled


@dataclass(frozen=True, slots=True)
class Identity:
    """A block is reusable when its PSNR reaches the threshold; with threshold inf, when every byte is equal."""

    config: MatchingConfig

    @property
    def name(self) -> str:
        """As :attr:`Matcher.name`."""
        return MatcherName.IDENTITY.value

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """As :meth:`Matcher.match`."""
        pair = ImagePair.of(reference, frame)
        return recheck(pair, self.config, (0, 0), unsettled(pair, self.config))
