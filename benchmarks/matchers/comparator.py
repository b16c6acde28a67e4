# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A matcher made from a function that compares two images."""

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
    """A :class:`Matcher` that calls a function.

    Attributes:
        name: the name in reports.
        compare: finds which blocks of the second image are in the first.
    """

    name: str
    compare: Callable[[ImagePair, MatchingConfig], CacheMap]
    config: MatchingConfig

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """Implement :meth:`Matcher.match`."""
        return self.compare(ImagePair.of(reference, frame), self.config)
