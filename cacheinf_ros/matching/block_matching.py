# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Match by blocks: the best offset of each block, their mean, and the re-check of every block at one offset.

Blocks are compared by PSNR (DeepCache section 4), over the raw bytes of all channels. The paper compares raw pixels.
All channels count, because a grey picture would hide changes of colour alone, which a network sees; and three channels
cost the search little, since the bytes of a row of a block lie side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.errors import MatchingError
from cacheinf_ros.geometry import ImagePair
from cacheinf_ros.matching import kernels
from cacheinf_ros.matching.matching_config import MatcherName, MatchingConfig

PEAK = 255
"""Largest value of a byte."""

Offset: TypeAlias = tuple[int, int]  # (dx, dy), pixels: where a block of the frame is looked up in the reference


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Search:
    """The best place of each block that was searched: every ``skip``-th in each direction.

    Attributes:
        skip: step between searched blocks; 1: every block was searched.
        best: int64 [rows, columns, 2]: (dx, dy), where the block is best found in the reference, in pixels.
        matched: bool [rows, columns]: whether its PSNR there reaches the threshold.
    """

    skip: int
    best: NDArray[np.int64]
    matched: NDArray[np.bool_]

    @classmethod
    def empty(cls, pair: ImagePair, config: MatchingConfig, skip: int) -> Search:
        """Allocate room for the result of a search."""
        rows, columns = (-(-blocks // skip) for blocks in grid_shape(pair.image_size, config.block_size))
        return cls(skip=skip, best=np.zeros((rows, columns, 2), np.int64), matched=np.zeros((rows, columns), np.bool_))

    def mean_offset(self) -> Offset:
        """Return the mean offset of the matched blocks, rounded to whole pixels; (0, 0) where nothing matched."""
        if not self.matched.any():
            return 0, 0
        dx, dy = np.rint(self.best[self.matched].mean(axis=0))
        return int(dx), int(dy)


class Visits(NamedTuple):
    """The places that a diamond search looked at, so that the re-check need not look again.

    Attributes:
        offsets: int16 [rows, columns, VISITS, 2]: (dx, dy), of which the first ``counts`` of a block are set.
        errors: int64 [rows, columns, VISITS]: sums of squared differences; exact up to what the threshold allows.
        counts: int64 [rows, columns, 1]: number of places that are set.
    """

    offsets: NDArray[np.int16]
    errors: NDArray[np.int64]
    counts: NDArray[np.int64]


def allowed_error(threshold_db: float) -> float:
    """Return the largest mean squared difference whose PSNR is at least the threshold; 0.0 for inf."""
    return float(PEAK**2 * 10 ** (-threshold_db / 10))


def search_by_diamond(pair: ImagePair, config: MatchingConfig, skip: int) -> tuple[Search, Visits]:
    """Search every ``skip``-th block in each direction by the diamond pattern (DeepCache section 4.1)."""
    search = Search.empty(pair, config, skip)
    grid = search.matched.shape
    visits = Visits(
        offsets=np.empty((*grid, kernels.VISITS, 2), np.int16),
        errors=np.empty((*grid, kernels.VISITS), np.int64),
        counts=np.empty((*grid, 1), np.int64),
    )
    kernels.search_diamond(
        pair.images, config.block_size, pair.channels, skip, config.search_range, allowed_error(config.threshold),
        search.best, search.matched, (*visits,),
    )  # fmt: skip
    return search, visits


def unsettled(pair: ImagePair, config: MatchingConfig) -> NDArray[np.uint8]:
    """Return verdicts on all blocks that are still unknown, uint8 [rows, columns]."""
    return np.full(grid_shape(pair.image_size, config.block_size), kernels.UNKNOWN, np.uint8)


def recall(pair: ImagePair, config: MatchingConfig, offset: Offset, visits: Visits, skip: int) -> NDArray[np.uint8]:
    """Return verdicts, uint8 [rows, columns], settled on those blocks of which the search looked at this offset."""
    verdicts = unsettled(pair, config)
    kernels.recall(
        pair.images, config.block_size, pair.channels, skip, *offset, allowed_error(config.threshold),
        (*visits,), verdicts,
    )  # fmt: skip
    return verdicts


def recheck(pair: ImagePair, config: MatchingConfig, offset: Offset, verdicts: NDArray[np.uint8]) -> CacheMap:
    """Return a map of the blocks whose PSNR at this offset reaches the threshold; fills in verdicts still unknown."""
    kernels.recheck(pair.images, config.block_size, pair.channels, *offset, allowed_error(config.threshold), verdicts)
    motion = Motion.translation(-offset[0], -offset[1]) if any(offset) else Motion.none()
    return CacheMap.of_blocks(verdicts == kernels.REUSABLE, pair.image_size, config.block_size, motion)


@dataclass(frozen=True, slots=True)
class Identity:
    """The trivial matcher: a block is compared with the same place of the reference, and with nothing else.

    A block is reusable when its PSNR reaches the threshold; with threshold inf, when every byte is equal.
    """

    config: MatchingConfig

    @property
    def name(self) -> str:
        """The name in reports, see :attr:`Matcher.name`."""
        return MatcherName.IDENTITY.value

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """Implement :meth:`Matcher.match`."""
        return self.at(reference, frame, Motion.none())

    def at(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8], motion: Motion) -> CacheMap:
        """Match as :meth:`match` does, after a known motion; raises :class:`MatchingError` unless by whole pixels."""
        pair, shift = ImagePair.of(reference, frame), motion.whole_shift
        if shift is None:
            raise MatchingError(f"blocks are compared after a motion of whole pixels, not {motion.matrix.tolist()}")
        return recheck(pair, self.config, (-shift[0], -shift[1]), unsettled(pair, self.config))


@dataclass(frozen=True, slots=True)
class DiamondOptimised:
    """Searches every ``k_skip``-th block in each direction, then re-checks every block at the mean offset."""

    config: MatchingConfig

    @property
    def name(self) -> str:
        """The name in reports, see :attr:`Matcher.name`."""
        return MatcherName.DIAMOND_OPTIMISED.value

    def match(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> CacheMap:
        """Implement :meth:`Matcher.match`."""
        pair = ImagePair.of(reference, frame)
        search, visits = search_by_diamond(pair, self.config, self.config.k_skip)
        offset = search.mean_offset()
        verdicts = recall(pair, self.config, offset, visits, search.skip)
        return recheck(pair, self.config, offset, verdicts)
