# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Block field: each block moves by its own displacement, as parallax and several objects make them do.

Beyond the four papers; after FluxShard (2026), which moves cached features by the codec's motion vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, distinct, grid_shape
from cacheinf_ros.matching import kernels
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.images import ImagePair
from cacheinf_ros.matching.psnr import allowed_error
from cacheinf_ros.matching.search import Search, search_by_diamond

_COMMON = 6


@dataclass(frozen=True, slots=True)
class Field:
    """Diamond search finds displacements that many blocks share; each block takes the most common one that fits it.

    So neighbours agree wherever they can, and only a block that none of them fits is searched on its own: the field is
    smooth, and has few seams.
    """

    config: MatchingConfig

    @property
    def name(self) -> str:
        """As :attr:`Matcher.name`."""
        return MatcherName.FIELD.value

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """As :meth:`Matcher.match`."""
        pair = ImagePair.of(reference, frame)
        search, _ = search_by_diamond(pair, self.config, self.config.k_skip)
        grid = grid_shape(pair.image_size, self.config.block_size)
        offsets, matched = np.zeros((*grid, 2), np.int16), np.zeros(grid, np.bool_)
        kernels.search_field(
            pair.images, self.config.block_size, pair.channels, self.config.search_range,
            allowed_error(self.config.threshold), common_offsets(search), offsets, matched,
            np.empty((kernels.VISITS, 2), np.int16), np.empty(kernels.VISITS, np.int64), np.empty(1, np.int64),
        )  # fmt: skip
        return CacheMap.of_field(matched, (-offsets).astype(np.int16), pair.image_size, self.config.block_size)


def common_offsets(search: Search) -> NDArray[np.int64]:
    """int64 [n, 2]: the most frequent offsets of matched blocks, most frequent first; at least no offset."""
    found, counts = distinct(search.best[search.matched])
    if not len(found):
        return np.zeros((1, 2), np.int64)
    return np.ascontiguousarray(found[np.argsort(-counts, kind="stable")[:_COMMON]])
