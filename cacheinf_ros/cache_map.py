# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Cache maps: which parts of a frame are (moved) parts of what the cache already holds.

The whole package shares these types; this module imports nothing of the package but the errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import CacheMapError

LARGEST_SIDE = 2**14
"""The largest side of an image or block, in pixels: a larger one counts as a mistake before memory is allocated."""
_EPSILON = 1e-9
_BAND = 2**16  # pixels that are moved at a time


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
        """Return the motion that leaves every pixel where it is."""
        return _NONE

    @classmethod
    def translation(cls, dx: float, dy: float) -> Motion:
        """Return the motion by ``dx`` pixels to the right and ``dy`` pixels down."""
        return cls(matrix=np.array([[1.0, 0.0, dx], [0.0, 1.0, dy], [0.0, 0.0, 1.0]]))

    @cached_property
    def is_none(self) -> bool:
        """Whether the motion leaves everything where it is."""
        return bool(np.abs(self.matrix - _EYE).max() < _EPSILON)

    @cached_property
    def shift(self) -> tuple[float, float] | None:
        """The shift (dx, dy) in pixels where the motion is a pure translation, otherwise None."""
        rest = self.matrix - Motion.translation(*self.matrix[:2, 2]).matrix
        if np.abs(rest).max() >= _EPSILON:
            return None
        return float(self.matrix[0, 2]), float(self.matrix[1, 2])

    @property
    def whole_shift(self) -> tuple[int, int] | None:
        """The shift (dx, dy) where the motion is a translation by whole pixels, otherwise None."""
        if self.shift is None or not all(value.is_integer() for value in self.shift):
            return None
        return int(self.shift[0]), int(self.shift[1])

    def scaled(self, across: float, along: float) -> Motion:
        """Express the motion in pixels of images that are ``across`` times as wide and ``along`` times as high.

        Pixels' centres are at whole numbers.
        """
        if across == along == 1:
            return self
        right, down = (across - 1) / 2, (along - 1) / 2
        scale = np.array([[across, 0, right], [0, along, down], [0, 0, 1]])
        back = np.array([[1 / across, 0, -right / across], [0, 1 / along, -down / along], [0, 0, 1]])
        matrix = scale @ self.matrix @ back
        return Motion(matrix=np.asarray(matrix / matrix[2, 2], np.float64))

    def then(self, later: Motion) -> Motion:
        """Return this motion followed by ``later``; raises :class:`CacheMapError` where the product is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):  # Motion refuses a product that is not finite
            return Motion(matrix=later.matrix @ self.matrix)

    def inverse(self) -> Motion:
        """Return the motion frame -> reference; raises :class:`CacheMapError` where the matrix is singular."""
        return self._inverse

    @cached_property
    def _inverse(self) -> Motion:
        try:
            return Motion(matrix=np.linalg.inv(self.matrix).astype(np.float64))
        except np.linalg.LinAlgError:
            raise CacheMapError(f"a motion must be invertible, this is not: {self.matrix.tolist()}") from None


_EYE = np.eye(3)
_EYE.setflags(write=False)  # all identity motions share it
_NONE = Motion(matrix=_EYE)


@dataclass(frozen=True, kw_only=True, eq=False)
class CacheMap:
    """Which blocks of a frame are reusable, under which motion.

    A reusable block shows what the reference shows at ``motion.inverse()`` of its position. A map that
    contradicts itself raises :class:`CacheMapError`.

    Attributes:
        image_size: (height, width) of frame and reference, in pixels, each at most :data:`LARGEST_SIDE`.
        block_size: side of a block, in pixels; the blocks of the last row and column may be cut off.
        reusable: bool [ceil(height / block_size), ceil(width / block_size)].
        motion: reference -> frame; invertible.
        reason: why nothing is reusable, where the content of the frame is not the cause ("expired").
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
        self.motion.inverse()  # raises where there is none

    @classmethod
    def nothing(cls, image_size: tuple[int, int], block_size: int, reason: str = "") -> CacheMap:
        """Return a map in which nothing is reusable."""
        reusable = np.zeros(grid_shape(image_size, block_size), np.bool_)
        return cls(image_size=image_size, block_size=block_size, reusable=reusable, motion=Motion.none(), reason=reason)

    @classmethod
    def of_blocks(
        cls, reusable: NDArray[np.bool_], image_size: tuple[int, int], block_size: int, motion: Motion
    ) -> CacheMap:
        """Return a map with the given reusable blocks."""
        return cls(image_size=image_size, block_size=block_size, reusable=reusable, motion=motion)

    @cached_property
    def is_empty(self) -> bool:
        """Whether nothing of the frame is reusable."""
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
        """The share of reusable pixels, 0 to 1: 1 = all reused."""
        height, width = self.image_size
        rows, columns = self.reusable.shape
        pixels = np.count_nonzero(self.reusable) * self.block_size**2
        below, beside = rows * self.block_size - height, columns * self.block_size - width  # cut off
        last_row, last_column = self.reusable[-1], self.reusable[:, -1]
        pixels -= (np.count_nonzero(last_row) * below + np.count_nonzero(last_column) * beside) * self.block_size
        pixels += bool(last_row[-1]) * below * beside  # both subtracted the corner
        return float(pixels / (height * width))

    @cached_property
    def bounding_box(self) -> tuple[int, int, int, int] | None:
        """The box (left, top, right, bottom) of all that is reusable, in pixels, the last two excluded; or None."""
        rows, columns = np.flatnonzero(self.reusable.any(axis=1)), np.flatnonzero(self.reusable.any(axis=0))
        if not len(rows):
            return None
        height, width = self.image_size
        right, bottom = (int(last[-1] + 1) * self.block_size for last in (columns, rows))
        return int(columns[0]) * self.block_size, int(rows[0]) * self.block_size, min(right, width), min(bottom, height)


def grid_shape(image_size: tuple[int, int], block_size: int) -> tuple[int, int]:
    """Return (rows, columns) of the grid of blocks that covers an image of (height, width) pixels.

    Raises:
        CacheMapError: a size is not positive, or above :data:`LARGEST_SIDE`.
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
    """Expand one bool per block to a mask of pixels, bool [height, width]."""
    height, width = image_size
    rows = blocks.repeat(min(block_size, height), axis=0)[:height]
    return rows.repeat(min(block_size, width), axis=1)[:, :width]


def compose(earlier: CacheMap, later: CacheMap) -> CacheMap:
    """Fold two maps into one that leads from the reference of ``earlier`` to the frame of ``later``.

    Motions multiply; a block stays reusable when ``later`` reuses it and everything it shows was itself
    reusable in ``earlier``. So dropping the frame between them never leads to a wrong result.
    """
    if earlier.image_size != later.image_size:
        return CacheMap.nothing(later.image_size, later.block_size, "the image size changed")
    kept = later.reusable_mask & _moved(earlier.reusable_mask, later.motion)
    reusable = _whole_blocks(kept, later.block_size)
    try:
        motion = earlier.motion.then(later.motion)
        return CacheMap.of_blocks(reusable, later.image_size, later.block_size, motion)
    except CacheMapError:  # each is invertible, but their product overflows or is singular in float64
        return CacheMap.nothing(later.image_size, later.block_size, "the motions of successive maps do not fold")


def fold(maps: Sequence[CacheMap]) -> CacheMap:
    """Fold maps of successive frames, the earliest first, into one, as :func:`compose` would one by one.

    Where nothing moved, a block is reusable if it is so in all maps: blocks need not be expanded to pixels.
    """
    last = maps[-1]
    grid = last.image_size, last.block_size
    if len(maps) > 1 and all(each.motion.is_none and (each.image_size, each.block_size) == grid for each in maps):
        return CacheMap.of_blocks(np.logical_and.reduce([each.reusable for each in maps]), *grid, last.motion)
    return reduce(compose, maps)


def _moved(mask: NDArray[np.bool_], motion: Motion) -> NDArray[np.bool_]:
    """Move a mask; a pixel of the result is set when all pixels that it shows (up to 2x2) are set in ``mask``."""
    if motion.is_none:
        return mask
    height, width = mask.shape
    padded = np.zeros((height + 2, width + 2), np.bool_)
    padded[1:-1, 1:-1] = mask
    back, moved = motion.inverse().matrix, np.empty_like(mask)
    step = max(1, _BAND // width)
    for first in range(0, height, step):  # in bands, since each pixel takes some hundred bytes of scratch memory
        moved[first : first + step] = _band_moved(padded, back, (first, min(first + step, height)))
    return moved


def _band_moved(padded: NDArray[np.bool_], back: NDArray[np.float64], rows: tuple[int, int]) -> NDArray[np.bool_]:
    """Compute these rows of the result of :func:`_moved`.

    ``padded`` is the mask with a border of one pixel, ``back`` leads from the frame to the reference.
    """
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
    """Reduce a mask to one bool per block: whether all pixels of the block are set."""
    rows = np.logical_and.reduceat(mask, np.arange(0, mask.shape[0], block_size), axis=0)
    return np.logical_and.reduceat(rows, np.arange(0, mask.shape[1], block_size), axis=1)
