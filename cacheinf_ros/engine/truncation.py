"""Truncation: a computed pixel whose change is small is not passed on; the cache keeps its old value there.

The comparison is with the value that downstream operators last saw, so errors do not build up over frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray


class Criterion(Enum):
    """How the change of a pixel is measured over its channels."""

    MAXIMUM = "maximum"
    """The largest of weight * |change|."""
    ENERGY = "energy"
    """The square root of the sum of (weight * change)**2."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truncation:
    """When the change of a pixel of one tensor is too small to matter.

    Attributes:
        threshold: changes up to it are held back.
        weight: float32 [channels], how much each channel matters; None: all 1.
    """

    threshold: float
    criterion: Criterion = Criterion.MAXIMUM
    weight: NDArray[np.float32] | None = None

    def change(self, computed: NDArray[np.float32], old: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 [n]: the change of pixels [n, channels], to be compared with the threshold."""
        weighted = np.abs(computed - old)
        if self.weight is not None:
            weighted = weighted * self.weight
        if self.criterion is Criterion.MAXIMUM:
            return weighted.max(axis=1, initial=0.0)
        return np.sqrt(np.square(weighted).sum(axis=1))


NOTHING_CHANGED = Truncation(threshold=0.0)
"""Holds back only what did not change at all: no error."""
