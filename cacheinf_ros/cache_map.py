# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which parts of a frame are (moved) parts of what the cache already holds.

These are the words every part of the package shares; this module imports nothing of ours but the errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import CacheMapError

LARGEST_SIDE = 2**14
"""Pixels; what claims to be larger is taken for a mistake, before memory is asked for."""
_EPSILON = 1e-9
_BAND = 2**16  # pixels that are moved at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion:
    """Where a pixel of the reference is found in the frame.

    Attributes:
        matrix: float64 [3, 3], homogeneous, reference -> frame, in pixels, x right and y down.
    """

    matrix: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.matrix.shape != (3, 3) or not np.isfinite(self.matrix).all():
            raise CacheMapError(f"a motion is a finite 3x3 matrix, not {self.matrix!r}")

    @classmethod
    def none(cls) -> Motion:
        """Let every pixel stay where it is."""
        return _NONE

    @classmethod
    def translation(cls, dx: float, dy: float) -> Motion:
        """Everything moves by ``dx`` pixels to the right and ``dy`` pixels down."""
        return cls(matrix=np.array([[1.0, 0.0, dx], [0.0, 1.0, dy], [0.0, 0.0, 1.0]]))

    @cached_property
    def is_none(self) -> bool:
        """Whether nothing moves."""
        return bool(np.abs(self.matrix - _EYE).max() < _EPSILON)

    @cached_property
    def shift(self) -> tuple[float, float] | None:
        """(dx, dy) in pixels when the motion is a pure translation, otherwise None."""
        rest = self.matrix - Motion.translation(*self.matrix[:2, 2]).matrix
        if np.abs(rest).max() >= _EPSILON:
            return None
        return float(self.matrix[0, 2]), float(self.matrix[1, 2])

    @property
    def whole_shift(self) -> tuple[int, int] | None:
        """(dx, dy) where the motion is a translation by whole pixels, otherwise None."""
        if self.shift is None or not all(value.is_integer() for value in self.shift):
            return None
        return int(self.shift[0]), int(self.shift[1])

    def scaled(self, across: float, along: float) -> Motion:
        """Express it in pixels of pictures so many times as wide and as high; pixels' centres are at whole numbers."""
        if across == along == 1:
            return self
        right, down = (across - 1) / 2, (along - 1) / 2
        scale = np.array([[across, 0, right], [0, along, down], [0, 0, 1]])
        back = np.array([[1 / across, 0, -right / across], [0, 1 / along, -down / along], [0, 0, 1]])
        matrix = scale @ self.matrix @ back
        return Motion(matrix=np.asarray(matrix / matrix[2, 2], np.float64))

    def then(self, later: Motion) -> Motion:
        """This motion followed by ``later``."""
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite any more is refused
            return Motion(matrix=later.matrix @ self.matrix)

    def inverse(self) -> Motion:
        """The motion frame -> reference; raises :class:`CacheMapError` when the matrix is singular."""
        return self._inverse

    @cached_property
    def _inverse(self) -> Motion:
        try:
            return Motion(matrix=np.linalg.inv(self.matrix).astype(np.float64))
        except np.linalg.LinAlgError:
            raise CacheMapError(f"a motion must be invertible, this is not: {self.matrix.tolist()}") from None


_EYE = np.eye(3)
_EYE.setflags(write=False)  # one for all
_NONE = Motion(matrix=_EYE)


@dataclass(frozen=True, kw_only=True, eq=False)
class CacheMap:
    """Which blocks of a frame are reusable, under which motion.

    A reusable block shows what the reference shows at ``motion.inverse()`` of its position. What contradicts itself
    raises :class:`CacheMapError`.

    Attributes:
        image_size: (height, width) of frame and reference, in pixels, each at most :data:`LARGEST_SIDE`.
        block_size: side of a block, in pixels; the blocks of the last row and column may be cut off.
        reusable: bool [ceil(height / block_size), ceil(width / block_size)].
        motion: reference -> frame; invertible.
        reason: why nothing is reusable, where that is so for another reason than the picture ("expired").
    """

    image_size: tuple[int, int]
    block_size: int
    reusable: NDArray[np.bool_]
    motion: Motion
    reason: str = ""

    def __post_init__(self) -> None:
        expected = grid_shape(self.image_size, self.block_size)
        if self.reusable.shape != expected or self.reusable.dtype != np.bool_:
            raise CacheMapError(
                f"an image of {self.image_size} in blocks of {self.block_size} has a bool grid of {expected}, "
                f"not {self.reusable.dtype} of {self.reusable.shape}"
            )
        self.motion.inverse()  # complains where there is none

    @classmethod
    def nothing(cls, image_size: tuple[int, int], block_size: int, reason: str = "") -> CacheMap:
        """The map of a frame of which nothing is reusable."""
        reusable = np.zeros(grid_shape(image_size, block_size), np.bool_)
        return cls(image_size=image_size, block_size=block_size, reusable=reusable, motion=Motion.none(), reason=reason)

    @classmethod
    def of_blocks(
        cls, reusable: NDArray[np.bool_], image_size: tuple[int, int], block_size: int, motion: Motion
    ) -> CacheMap:
        """The map of these reusable blocks."""
        return cls(image_size=image_size, block_size=block_size, reusable=reusable, motion=motion)

    @cached_property
    def is_empty(self) -> bool:
        """Whether nothing is reusable."""
        return not self.reusable.any()

    @cached_property
    def reusable_mask(self) -> NDArray[np.bool_]:
        """bool [height, width]: the reusable pixels."""
        return expand_blocks(self.reusable, self.image_size, self.block_size)

    @cached_property
    def active_mask(self) -> NDArray[np.bool_]:
        """bool [height, width]: the pixels to compute."""
        return ~self.reusable_mask

    @cached_property
    def reuse_ratio(self) -> float:
        """Reusable pixels / all pixels: 1 = all reused."""
        height, width = self.image_size
        rows, columns = self.reusable.shape
        pixels = np.count_nonzero(self.reusable) * self.block_size**2
        below, beside = rows * self.block_size - height, columns * self.block_size - width  # cut off
        last_row, last_column = self.reusable[-1], self.reusable[:, -1]
        pixels -= (np.count_nonzero(last_row) * below + np.count_nonzero(last_column) * beside) * self.block_size
        pixels += bool(last_row[-1]) * below * beside  # which both took away
        return float(pixels / (height * width))

    @cached_property
    def bounding_box(self) -> tuple[int, int, int, int] | None:
        """(left, top, right, bottom) of all that is reusable, in pixels, the last two excluded; None: nothing is."""
        rows, columns = np.flatnonzero(self.reusable.any(axis=1)), np.flatnonzero(self.reusable.any(axis=0))
        if not len(rows):
            return None
        height, width = self.image_size
        right, bottom = (int(last[-1] + 1) * self.block_size for last in (columns, rows))
        return int(columns[0]) * self.block_size, int(rows[0]) * self.block_size, min(right, width), min(bottom, height)


def grid_shape(image_size: tuple[int, int], block_size: int) -> tuple[int, int]:
    """(rows, columns) of the grid of blocks that covers an image of (height, width) pixels.

    Raises:
        CacheMapError: a size is not positive, or larger than any camera's.
    """
    if block_size < 1 or min(image_size) < 1:
        raise CacheMapError(f"image size {image_size} and block size {block_size} must be positive")
    if max(*image_size, block_size) > LARGEST_SIDE:
        raise CacheMapError(
            f"image size {image_size} and block size {block_size}: at most {LARGEST_SIDE} pixels a side; "
            "scale the image down before it is matched"
        )
    return -(-image_size[0] // block_size), -(-image_size[1] // block_size)


def expand_blocks(blocks: NDArray[np.bool_], image_size: tuple[int, int], block_size: int) -> NDArray[np.bool_]:
    """bool [height, width] from one bool per block."""
    height, width = image_size
    rows = blocks.repeat(min(block_size, height), axis=0)[:height]
    return rows.repeat(min(block_size, width), axis=1)[:, :width]


def compose(earlier: CacheMap, later: CacheMap) -> CacheMap:
    """Fold two maps into one that leads from the reference of ``earlier`` to the frame of ``later``.

    Motions multiply; a block stays reusable when ``later`` reuses it and everything it shows was itself
    reusable in ``earlier``. So a frame that was dropped between them never yields a wrong result.
    """
    if earlier.image_size != later.image_size:
        return CacheMap.nothing(later.image_size, later.block_size, "the image size changed")
    kept = later.reusable_mask & _moved(earlier.reusable_mask, later.motion)
    reusable = _whole_blocks(kept, later.block_size)
    try:
        motion = earlier.motion.then(later.motion)
        return CacheMap.of_blocks(reusable, later.image_size, later.block_size, motion)
    except CacheMapError:  # each can be inverted, but their product is beyond the numbers of this machine
        return CacheMap.nothing(later.image_size, later.block_size, "the motions of successive maps do not fold")


def fold(maps: Sequence[CacheMap]) -> CacheMap:
    """Maps of successive frames as one, the earliest first: as :func:`compose` would fold them one by one.

    Where nothing moved, what is reusable is what all call reusable: blocks need not be expanded to pixels.
    """
    last = maps[-1]
    grid = last.image_size, last.block_size
    if len(maps) > 1 and all(each.motion.is_none and (each.image_size, each.block_size) == grid for each in maps):
        return CacheMap.of_blocks(np.logical_and.reduce([each.reusable for each in maps]), *grid, last.motion)
    return reduce(compose, maps)


def _moved(mask: NDArray[np.bool_], motion: Motion) -> NDArray[np.bool_]:
    """A pixel of the result is set when all pixels that it shows (up to 2x2 between pixels) are set in ``mask``."""
    if motion.is_none:
        return mask
    height, width = mask.shape
    padded = np.zeros((height + 2, width + 2), np.bool_)
    padded[1:-1, 1:-1] = mask
    back, moved = motion.inverse().matrix, np.empty_like(mask)
    step = max(1, _BAND // width)
    for first in range(0, height, step):  # in bands: each needs some hundred bytes for a pixel
        moved[first : first + step] = _band_moved(padded, back, (first, min(first + step, height)))
    return moved


def _band_moved(padded: NDArray[np.bool_], back: NDArray[np.float64], rows: tuple[int, int]) -> NDArray[np.bool_]:
    """These rows of what :func:`_moved` finds; the mask has a border of one pixel, ``back`` leads to what is shown."""
    height, width = padded.shape[0] - 2, padded.shape[1] - 2
    y, x = np.mgrid[rows[0] : rows[1], :width]
    source = back @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    with np.errstate(divide="ignore", invalid="ignore"):
        source_x, source_y = np.nan_to_num(source[:2] / source[2], nan=-2.0, posinf=-2.0, neginf=-2.0)
    columns = [_padded_index(f(source_x), width) for f in (_floor, _ceil)]
    lines = [_padded_index(f(source_y), height) for f in (_floor, _ceil)]
    return np.asarray(np.logical_and.reduce([padded[r, c] for r in lines for c in columns]).reshape(-1, width))


def _floor(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.floor(values + _EPSILON)


def _ceil(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ceil(values - _EPSILON)


def _padded_index(values: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    return np.clip(values, -1, size).astype(np.int64) + 1


def _whole_blocks(mask: NDArray[np.bool_], block_size: int) -> NDArray[np.bool_]:
    """One bool per block: whether all its pixels are set."""
    rows = np.logical_and.reduceat(mask, np.arange(0, mask.shape[0], block_size), axis=0)
    return np.logical_and.reduceat(rows, np.arange(0, mask.shape[1], block_size), axis=1)
