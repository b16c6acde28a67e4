"""How much a network will compute for a cache map, as far as the map alone can tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.compiled import FLOAT, READ_ONLY_FLAGS, compiled

_SPREAD = 2  # blocks in each direction around a changed one that are computed too: changes spread in a network


def computed_share(cache_map: CacheMap) -> float:
    """About which share of a frame a network will compute: what is not reusable, and what is near to it.

    Changes that lie together cost less than the same number of them scattered over the picture.
    """
    return float(_share_near_changes(cache_map.reusable))


@compiled(READ_ONLY_FLAGS, returns=FLOAT)
def _share_near_changes(reusable: NDArray[np.bool_]) -> float:
    rows, columns = reusable.shape
    computed = np.zeros((rows, columns), np.bool_)
    for row in range(rows):
        for column in range(columns):
            if not reusable[row, column]:
                top, left = max(0, row - _SPREAD), max(0, column - _SPREAD)
                computed[top : row + _SPREAD + 1, left : column + _SPREAD + 1] = True
    return float(computed.sum()) / computed.size
