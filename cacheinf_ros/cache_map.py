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

_EPSILON = 1e-9
_MOVES = 2**16  # different moves along one axis


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
        """No motion: every pixel stays where it is."""
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

    def scaled(self, across: float, along: float) -> Motion:
        """The same in pixels of pictures this many times as wide and as high; pixels' centres are at whole numbers."""
        if across == along == 1:
            return self
        right, down = (across - 1) / 2, (along - 1) / 2
        scale = np.array([[across, 0, right], [0, along, down], [0, 0, 1]])
        back = np.array([[1 / across, 0, -right / across], [0, 1 / along, -down / along], [0, 0, 1]])
        matrix = scale @ self.matrix @ back
        return Motion(matrix=np.asarray(matrix / matrix[2, 2], np.float64))

    def then(self, later: Motion) -> Motion:
        """This motion followed by ``later``."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far a picture has got away from where it was.

    Attributes:
        shift: (dx, dy) of its centre, in pixels.
        distortion: largest movement of a corner beside that, over the length of the diagonal.
    """

    shift: tuple[float, float]
    distortion: float

    @classmethod
    def of(cls, motion: Motion, size: tuple[int, int]) -> Drift:
        """Of a picture of (height, width) under a motion."""
        height, width = size
        right, bottom = width - 1.0, height - 1.0
        places = np.array([[right / 2, bottom / 2], [0, 0], [right, 0], [right, bottom], [0, bottom]])
        moved = np.column_stack([places, np.ones(5)]) @ motion.matrix.T
        moves = moved[:, :2] / moved[:, 2:] - places
        rest = float(np.linalg.norm(moves[1:] - moves[0], axis=1).max())
        distortion = rest / float(np.hypot(height, width)) if (moved[:, 2] > 0).all() else np.inf
        return cls(shift=(float(moves[0, 0]), float(moves[0, 1])), distortion=distortion)


@dataclass(frozen=True, kw_only=True, eq=False)
class CacheMap:
    """Which blocks of a frame are reusable, under which motion.

    A reusable block shows what the reference shows at ``motion.inverse()`` of its position.

    Attributes:
        image_size: (height, width) of frame and reference, in pixels.
        block_size: side of a block, in pixels; the blocks of the last row and column may be cut off.
        reusable: bool [ceil(height / block_size), ceil(width / block_size)].
        motion: reference -> frame.
        rectangles: int32 [n, 4], (x, y, width, height) in pixels, disjoint; together they are exactly the
            reusable blocks.
        reason: why nothing is reusable, where that is so for another reason than the picture ("expired").
        field: int16 [rows, columns, 2], or None: by how many pixels (dx, dy) each reusable block has moved, where they
            have not moved together; ``motion`` is then the translation that most of them share.
    """

    image_size: tuple[int, int]
    block_size: int
    reusable: NDArray[np.bool_]
    motion: Motion
    rectangles: NDArray[np.int32]
    reason: str = ""
    field: NDArray[np.int16] | None = None

    def __post_init__(self) -> None:
        expected = grid_shape(self.image_size, self.block_size)
        if self.reusable.shape != expected or self.reusable.dtype != np.bool_:
            raise CacheMapError(
                f"an image of {self.image_size} in blocks of {self.block_size} has a bool grid of {expected}, "
                f"not {self.reusable.dtype} of {self.reusable.shape}"
            )
        if self.rectangles.ndim != 2 or self.rectangles.shape[1] != 4:
            raise CacheMapError(f"rectangles are [n, 4], not {self.rectangles.shape}")
        if self.field is not None and (self.field.shape != (*expected, 2) or self.field.dtype != np.int16):
            raise CacheMapError(
                f"a block field is int16 of {(*expected, 2)}, not {self.field.dtype} {self.field.shape}"
            )

    @classmethod
    def nothing(cls, image_size: tuple[int, int], block_size: int, reason: str = "") -> CacheMap:
        """The map of a frame of which nothing is reusable."""
        return cls(
            image_size=image_size,
            block_size=block_size,
            reusable=np.zeros(grid_shape(image_size, block_size), np.bool_),
            motion=Motion.none(),
            rectangles=np.zeros((0, 4), np.int32),
            reason=reason,
        )

    @classmethod
    def of_blocks(
        cls, reusable: NDArray[np.bool_], image_size: tuple[int, int], block_size: int, motion: Motion
    ) -> CacheMap:
        """The map of these reusable blocks, with the rectangles merged from them."""
        return cls(
            image_size=image_size,
            block_size=block_size,
            reusable=reusable,
            motion=motion,
            rectangles=merge_blocks(reusable, image_size, block_size),
        )

    @classmethod
    def of_field(
        cls, reusable: NDArray[np.bool_], field: NDArray[np.int16], image_size: tuple[int, int], block_size: int
    ) -> CacheMap:
        """The map of these reusable blocks, each moved by its own whole number of pixels.

        Without a field where all of them moved together.
        """
        moves, counts = distinct(field[reusable])
        most = moves[counts.argmax()] if len(moves) else (0, 0)
        return cls(
            image_size=image_size,
            block_size=block_size,
            reusable=reusable,
            motion=Motion.translation(float(most[0]), float(most[1])),
            rectangles=merge_blocks(reusable, image_size, block_size),
            field=np.where(reusable[..., None], field, 0).astype(np.int16) if len(moves) > 1 else None,
        )

    @property
    def is_still(self) -> bool:
        """Whether what is reusable is where it was."""
        return self.motion.is_none and self.field is None

    @cached_property
    def as_one_piece(self) -> CacheMap:
        """What of this map moved as ``motion`` says: itself, unless it has a field."""
        if self.field is None:
            return self
        together = self.reusable & (self.field == self.motion.matrix[:2, 2].round()).all(axis=2)
        return CacheMap.of_blocks(together, self.image_size, self.block_size, self.motion)

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
        return float((self.rectangles[:, 2].astype(np.int64) * self.rectangles[:, 3]).sum() / (height * width))


def distinct(moves: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different rows of moves [n, 2] of 16 bits, sorted, int64 [k, 2], and how often each is there.

    ``np.unique`` along an axis does the same, ten times slower.
    """
    keys, counts = np.unique(moves[:, 0].astype(np.int64) * _MOVES + moves[:, 1], return_counts=True)
    first = (keys + _MOVES // 2) // _MOVES
    return np.stack([first, keys - first * _MOVES], axis=1), counts


def grid_shape(image_size: tuple[int, int], block_size: int) -> tuple[int, int]:
    """(rows, columns) of the grid of blocks that covers an image of (height, width) pixels."""
    if block_size < 1 or min(image_size) < 1:
        raise CacheMapError(f"image size {image_size} and block size {block_size} must be positive")
    return -(-image_size[0] // block_size), -(-image_size[1] // block_size)


def expand_blocks(blocks: NDArray[np.bool_], image_size: tuple[int, int], block_size: int) -> NDArray[np.bool_]:
    """bool [height, width] from one bool per block."""
    return blocks.repeat(block_size, axis=0).repeat(block_size, axis=1)[: image_size[0], : image_size[1]]


def merge_blocks(blocks: NDArray[np.bool_], image_size: tuple[int, int], block_size: int) -> NDArray[np.int32]:
    """Merge adjacent blocks into disjoint rectangles (DeepCache section 4.2: as few and as large as possible).

    Greedy: the widest run from the first free block, then as many rows below as have that whole run free.

    Returns:
        int32 [n, 4]: (x, y, width, height) in pixels, clipped to the image.
    """
    free = blocks.copy()
    merged = []
    for row, column in zip(*np.nonzero(blocks), strict=True):
        if not free[row, column]:
            continue
        right = column + _run_length(free[row, column:])
        bottom = row + _run_length(np.all(free[row:, column:right], axis=1))
        free[row:bottom, column:right] = False
        merged.append((column, row, right, bottom))
    corners = np.array(merged, np.int32).reshape(-1, 4) * np.int32(block_size)
    corners[:, 2] = np.minimum(corners[:, 2], image_size[1])
    corners[:, 3] = np.minimum(corners[:, 3], image_size[0])
    corners[:, 2:] -= corners[:, :2]
    return corners


def compose(earlier: CacheMap, later: CacheMap) -> CacheMap:
    """Fold two maps into one that leads from the reference of ``earlier`` to the frame of ``later``.

    Motions multiply; a block stays reusable when ``later`` reuses it and everything it shows was itself
    reusable in ``earlier``. So a frame that was dropped between them never yields a wrong result.
    """
    if earlier.image_size != later.image_size:
        return CacheMap.nothing(later.image_size, later.block_size, "the image size changed")
    if earlier.field is not None or later.field is not None:
        return _compose_fields(earlier, later)
    kept = later.reusable_mask & _moved(earlier.reusable_mask, later.motion)
    return CacheMap.of_blocks(
        _whole_blocks(kept, later.block_size), later.image_size, later.block_size, earlier.motion.then(later.motion)
    )


def fold(maps: Sequence[CacheMap]) -> CacheMap:
    """Maps of successive frames as one, the earliest first: as :func:`compose` would fold them one by one.

    Where nothing moved, what is reusable is what all call reusable, and blocks are merged only once: that takes long.
    """
    last = maps[-1]
    grid = last.image_size, last.block_size
    if len(maps) > 1 and all(each.is_still and (each.image_size, each.block_size) == grid for each in maps):
        return CacheMap.of_blocks(np.logical_and.reduce([each.reusable for each in maps]), *grid, last.motion)
    return reduce(compose, maps)


def _compose_fields(earlier: CacheMap, later: CacheMap) -> CacheMap:
    """A block stays reusable if all that it shows moved as one piece, in both maps."""
    size, block_size = later.image_size, later.block_size
    first, second = _pixel_field(earlier), _pixel_field(later)
    if first is None or second is None:
        return CacheMap.nothing(size, block_size, "a block field does not fold with a homography")
    y, x = np.mgrid[: size[0], : size[1]]
    source_y, source_x = y - second[..., 1], x - second[..., 0]
    inside = (source_y >= 0) & (source_y < size[0]) & (source_x >= 0) & (source_x < size[1])
    source = np.where(inside, source_y, 0), np.where(inside, source_x, 0)
    total = first[source] + second
    field = total[::block_size, ::block_size]
    kept = later.reusable_mask & inside & earlier.reusable_mask[source]
    kept &= (total == field.repeat(block_size, 0).repeat(block_size, 1)[: size[0], : size[1]]).all(axis=2)
    return CacheMap.of_field(_whole_blocks(kept, block_size), field.astype(np.int16), size, block_size)


def _pixel_field(cache_map: CacheMap) -> NDArray[np.int64] | None:
    """int64 [height, width, 2]: by how much each pixel moved; None where not by whole pixels."""
    if cache_map.field is not None:
        field = cache_map.field.astype(np.int64).repeat(cache_map.block_size, 0).repeat(cache_map.block_size, 1)
        return field[: cache_map.image_size[0], : cache_map.image_size[1]]
    shift = cache_map.motion.shift
    if shift is None or not all(value.is_integer() for value in shift):
        return None
    return np.broadcast_to(np.array(shift, np.int64), (*cache_map.image_size, 2))


def _moved(mask: NDArray[np.bool_], motion: Motion) -> NDArray[np.bool_]:
    """A pixel of the result is set when all pixels that it shows (up to 2x2 between pixels) are set in ``mask``."""
    if motion.is_none:
        return mask
    height, width = mask.shape
    y, x = np.mgrid[:height, :width]
    source = motion.inverse().matrix @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    with np.errstate(divide="ignore", invalid="ignore"):
        source_x, source_y = np.nan_to_num(source[:2] / source[2], nan=-2.0, posinf=-2.0, neginf=-2.0)
    padded = np.zeros((height + 2, width + 2), np.bool_)
    padded[1:-1, 1:-1] = mask
    columns = [_padded_index(f(source_x), width) for f in (_floor, _ceil)]
    rows = [_padded_index(f(source_y), height) for f in (_floor, _ceil)]
    return np.logical_and.reduce([padded[r, c] for r in rows for c in columns]).reshape(height, width)


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


def _run_length(flags: NDArray[np.bool_]) -> int:
    """How many leading entries are set."""
    return len(flags) if flags.all() else int(np.argmin(flags))
