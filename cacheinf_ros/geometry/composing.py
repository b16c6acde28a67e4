# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compose an image from two of one shape: the frame where it is active, the moved reference elsewhere.

A cache is then computed from the composed image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.errors import MatchingError
from cacheinf_ros.jit import BYTES, IMAGES, INT, READ_ONLY_FLAGS, kernel

MAX_CHANNELS = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImagePair:
    """A reference and a frame of one shape.

    Attributes:
        images: reference and frame, uint8 [height, width * channels], C-contiguous.
        image_size: (height, width), in pixels.
        channels: bytes per pixel.
    """

    images: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    image_size: tuple[int, int]
    channels: int

    @classmethod
    def of(cls, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> ImagePair:
        """Pair two images, uint8 [height, width] or [height, width, channels], else raise :class:`MatchingError`."""
        check_image(reference)
        check_image(frame)
        if reference.shape != frame.shape:
            raise MatchingError(
                f"reference {reference.shape} and frame {frame.shape} differ in shape: "
                "resize one, or drop the reference"
            )
        height, width = frame.shape[:2]
        return cls(
            images=(_in_rows(reference), _in_rows(frame)),
            image_size=(height, width),
            channels=frame.size // (height * width),
        )


def _in_rows(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(image).reshape(len(image), -1)


def check_image(image: NDArray[np.uint8]) -> None:
    """Raise :class:`MatchingError` unless this is uint8 [height, width] or [height, width, 1 to 4 channels]."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        kind = getattr(image, "dtype", type(image).__name__)
        raise MatchingError(f"an image to match is a uint8 array, not {kind}: convert it to 8 bits per channel")
    if image.ndim not in (2, 3) or image.size == 0 or (image.ndim == 3 and image.shape[2] > MAX_CHANNELS):
        raise MatchingError(
            f"an image to match is [height, width] or [height, width, 1 to {MAX_CHANNELS} channels] with at least "
            f"one pixel, not {image.shape}"
        )


def compose_image(
    reference: NDArray[np.uint8], frame: NDArray[np.uint8], cache_map: CacheMap, out: NDArray[np.uint8]
) -> None:
    """Write the composed image into ``out``, which is C-contiguous, of the shape of both images, and neither of them.

    Raises :class:`MatchingError` where the map is of another size, where its motion is not one of whole pixels, or
    where it reuses what the reference does not show.
    """
    pair = ImagePair.of(reference, frame)
    if cache_map.image_size != pair.image_size:
        raise MatchingError(f"a map of {cache_map.image_size} does not fit an image of {pair.image_size}")
    shift = cache_map.motion.whole_shift
    if shift is None:
        raise MatchingError(f"the reference moves by whole pixels only, not by {cache_map.motion.matrix.tolist()}")
    dx, dy = shift
    if _looks_outside(cache_map, dx, dy):
        raise MatchingError(f"the map reuses blocks that a motion of ({dx}, {dy}) brings in from outside the reference")
    rows = out.reshape(len(out), -1)
    _compose(pair.images, cache_map.reusable, cache_map.block_size, pair.channels, dx, dy, rows)


def _looks_outside(cache_map: CacheMap, dx: int, dy: int) -> bool:
    """Tell whether any reusable block shows what lay outside the reference before it moved by (dx, dy)."""
    if cache_map.bounding_box is None:
        return False
    left, top, right, bottom = cache_map.bounding_box
    height, width = cache_map.image_size
    return left < dx or top < dy or right - dx > width or bottom - dy > height


@kernel()
def _copy(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    for i in range(len(target)):
        target[i] = source[i]


@kernel(IMAGES, READ_ONLY_FLAGS, *(INT,) * 4, BYTES)
def _compose(
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]], reusable: NDArray[np.bool_], block: int, channels: int,
    dx: int, dy: int, out: NDArray[np.uint8],
) -> None:  # fmt: skip
    """Compose line by line, and copy neighbouring blocks of one kind at once."""
    reference, frame = images
    moved, size = dx * channels, block * channels
    for y in range(out.shape[0]):
        verdicts = reusable[y // block]
        column = 0
        while column < len(verdicts):
            end = column + 1
            while end < len(verdicts) and verdicts[end] == verdicts[column]:
                end += 1
            left, right = column * size, min(end * size, out.shape[1])
            if verdicts[column]:
                _copy(reference[y - dy, left - moved : right - moved], out[y, left:right])
            else:
                _copy(frame[y, left:right], out[y, left:right])
            column = end
