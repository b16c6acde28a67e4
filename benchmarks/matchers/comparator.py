# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A matcher of which only the comparison of two images is its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.geometry import ImagePair
from cacheinf_ros.matching import MatchingConfig


@dataclass(frozen=True, slots=True)
class Comparator:
    """See :class:`Matcher`.

    Attributes:
        name: as reports call it.
        compare: says what of the second image is in the first.
    """

    name: str
    compare: Callable[[ImagePair, MatchingConfig], CacheMap]
    config: MatchingConfig

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """As :meth:`Matcher.match`."""
        return self.compare(ImagePair.of(reference, frame), self.config)
