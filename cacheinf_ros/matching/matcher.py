# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a matcher is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.matching.anchor import Anchor


class Matcher(Protocol):
    """Says which parts of a frame are (moved) parts of a reference.

    Holds no state but its configuration, and ``auto`` what it learned of the others.
    """

    @property
    def name(self) -> str:
        """How reports call it: the value of its :class:`MatcherName`."""
        ...

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """Match two images, uint8 [height, width] or [height, width, channels], of one shape.

        Every reusable block of the result has, at the result's motion, a PSNR of at least the threshold and lies
        wholly inside the reference. Raises :class:`MatchingError` where the two cannot be compared.
        """
        ...


@runtime_checkable
class AnchorMatcher(Protocol):
    """A matcher that follows motions other than by whole pixels."""

    def match_anchor(self, anchor: Anchor, frame: NDArray[np.uint8]) -> CacheMap:
        """Match a frame with what a stream stands for; the map leads from the anchor's image to the frame."""
        ...
