# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""DeltaThreshold: a computed pixel whose change is small is not passed on; the cache keeps its old value there.

The comparison is with the value that downstream operators last saw, so errors do not build up over frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import cv2
import numpy as np
from numpy.typing import NDArray

POOLING = (1, 2, 3, 2, 1)
"""The weights of neighbouring pixels, along a row and along a column, for :attr:`Criterion.POOLED_ENERGY`."""


class Criterion(Enum):
    """How the change of a pixel is measured over its channels."""

    MAXIMUM = "maximum"
    """The largest of weight * |change|."""
    ENERGY = "energy"
    """The square root of the sum of (weight * change)**2."""
    POOLED_ENERGY = "pooled energy"
    """Like ENERGY, with the squares averaged over 5x5 computed pixels, weights falling linearly.

    A change of a single pixel, such as noise, is held back, and the pixels that are passed on lie together, so that the
    next window spreads them less."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaThreshold:
    """When the change of a pixel of one tensor is too small to matter.

    Attributes:
        threshold: changes up to this value are held back; where it is negative, all that was computed is passed on.
        weight: float32 [channels], how much each channel matters; None: all 1.
    """

    threshold: float
    criterion: Criterion = Criterion.MAXIMUM
    weight: NDArray[np.float32] | None = None

    @property
    def squared_threshold(self) -> float:
        """The threshold for sums of squares: the threshold squared, with its sign kept."""
        return self.threshold * abs(self.threshold)

    def passes(
        self,
        computed: NDArray[np.float32],
        old: NDArray[np.float32],
        rows: NDArray[np.int64],
        size: tuple[int, int],
    ) -> NDArray[np.bool_]:
        """Tell which pixels [n, channels] of a map changed by more than the threshold; bool [n].

        Args:
            rows: [n], indices of the pixels in a map of ``size`` (height, width).
        """
        change = self.change(computed, old)
        if self.criterion is Criterion.POOLED_ENERGY:
            squares = np.zeros(size, np.float32)
            squares.reshape(-1)[rows] = np.square(change)
            weights = np.array(POOLING, np.float32) / sum(POOLING)
            pooled = cv2.sepFilter2D(squares, cv2.CV_32F, weights, weights, borderType=cv2.BORDER_CONSTANT)
            change = np.sqrt(pooled.reshape(-1)[rows])
        return np.asarray(~(change <= self.threshold))  # NaN passes: nothing else would take it out of a map

    def change(self, computed: NDArray[np.float32], old: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compute the change of pixels [n, channels], each without its neighbours; float32 [n]."""
        differs = computed != old  # equal infinities do not
        weighted = np.abs(np.subtract(computed, old, out=np.zeros_like(computed), where=differs))
        if self.weight is not None:
            weighted = weighted * self.weight
        if self.criterion is Criterion.MAXIMUM:
            return weighted.max(axis=1, initial=0.0)
        return np.sqrt(np.square(weighted).sum(axis=1))


NOTHING_CHANGED = DeltaThreshold(threshold=0.0)
"""The threshold that holds back only pixels that did not change at all, and so causes no error."""
