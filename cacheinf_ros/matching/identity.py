# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The trivial matcher: a block is compared with the same place of the reference, and with nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.errors import MatchingError
from cacheinf_ros.geometry import ImagePair
from cacheinf_ros.matching.block_matching import recheck, unsettled
from cacheinf_ros.matching.config import MatcherName, MatchingConfig


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
        return self.at(reference, frame, Motion.none())

    def at(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8], motion: Motion) -> CacheMap:
        """Match as :meth:`match` does, after a known motion of whole pixels."""
        pair, shift = ImagePair.of(reference, frame), motion.whole_shift
        if shift is None:
            raise MatchingError(f"blocks are compared after a motion of whole pixels, not {motion.matrix.tolist()}")
        return recheck(pair, self.config, (-shift[0], -shift[1]), unsettled(pair, self.config))
