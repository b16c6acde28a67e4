# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Estimate which share of a frame a network will compute for a cache map, as far as the map alone can tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.jit import FLAGS, FLOAT, READ_ONLY_FLAGS, kernel

_SPREAD = 2  # blocks in each direction around a changed one that are computed too: changes propagate in a network


def computed_share(cache_map: CacheMap) -> float:
    """Estimate which share of a frame a network will compute: what is not reusable, and what is near to it.

    Changes that lie together cost less than the same number of them scattered over the picture.
    """
    return float(_share_near_changes(cache_map.reusable, np.zeros_like(cache_map.reusable)))


@kernel(READ_ONLY_FLAGS, FLAGS, returns=FLOAT)
def _share_near_changes(reusable: NDArray[np.bool_], computed: NDArray[np.bool_]) -> float:
    """Return the share of blocks that are near a changed one; ``computed``: out, of the same shape, first all false."""
    rows, columns = reusable.shape
    count = 0
    for row in range(rows):
        for column in range(columns):
            if not reusable[row, column]:
                for y in range(max(0, row - _SPREAD), min(rows, row + _SPREAD + 1)):
                    for x in range(max(0, column - _SPREAD), min(columns, column + _SPREAD + 1)):
                        count += not computed[y, x]
                        computed[y, x] = True
    return count / reusable.size
