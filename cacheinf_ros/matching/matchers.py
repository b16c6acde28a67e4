# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The interface of matchers, and the choice of one by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.matching.auto import Auto
from cacheinf_ros.matching.block_matching import DiamondOptimised, Identity
from cacheinf_ros.matching.homography import Homography
from cacheinf_ros.matching.keyframe import Keyframe
from cacheinf_ros.matching.matching_config import MatcherName, MatchingConfig


class Matcher(Protocol):
    """Says which parts of a frame are (moved) parts of a reference.

    A matcher holds no state but its configuration; ``auto`` also holds what it learned about the others, and
    ``homography`` buffers, so that each stream has one of its own.
    """

    @property
    def name(self) -> str:
        """The name in reports: the value of its :class:`MatcherName`, where it has one."""
        ...

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """Match two images, uint8 [height, width] or [height, width, channels], of one shape.

        Every reusable block of the result has, at the result's motion, a PSNR of at least the threshold and lies
        wholly inside the reference; ``homography`` allows more where resampling changes pixels, at edges. Raises
        :class:`MatchingError` where the two cannot be compared.
        """
        ...


@runtime_checkable
class KeyframeMatcher(Protocol):
    """A matcher that follows motions other than by whole pixels."""

    def match_keyframe(self, keyframe: Keyframe, frame: NDArray[np.uint8]) -> CacheMap:
        """Match a frame with the keyframe of a stream; the map leads from the keyframe's image to the frame."""
        ...


_MATCHERS: Mapping[MatcherName, Callable[[MatchingConfig], Matcher]] = {
    MatcherName.AUTO: Auto,
    MatcherName.IDENTITY: Identity,
    MatcherName.DIAMOND_OPTIMISED: DiamondOptimised,
    MatcherName.HOMOGRAPHY: Homography,
}


def make_matcher(config: MatchingConfig) -> Matcher:
    """Make the matcher that the configuration names."""
    return _MATCHERS[config.matcher](config)
