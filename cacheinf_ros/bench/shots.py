# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The frames that the engine is measured on: recorded ones, or photographs of which a given share changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import count

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.sources import EncodedScene, FolderSource, KnowsObjects, Scene, SceneTruth, Source, TrueObject
from cacheinf_ros.sources.scenes import Gallery, load_photographs

Image = NDArray[np.uint8]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shot:
    """A frame of a benchmark.

    Attributes:
        image: uint8 [height, width, 3], BGR.
        stamp_ns: time since the first frame of the source.
        cache_map: what of the frame is reusable, where that is known without matching.
        truth: everything that is known about a frame of a built-in scene.
        objects: the objects in the frame, where the source knows them.
        marked: the classes all of whose objects in the frame are in ``objects``.
        read_class_map: reads the class of each pixel, uint8 [height, width], 255 where unknown, or None where nobody
            has drawn it; raises :class:`SourceError`.
    """

    image: Image
    stamp_ns: int = 0
    cache_map: CacheMap | None = None
    truth: SceneTruth | None = None
    objects: tuple[TrueObject, ...] | None = None
    marked: tuple[str, ...] = ()
    read_class_map: Callable[[], NDArray[np.uint8] | None] = lambda: None


def recorded(source: Source) -> Iterator[Shot]:
    """Yield the frames of a source, with the truth about them where the source knows it."""
    marked = source.classes() if isinstance(source, KnowsObjects) else ()
    drawn = source if isinstance(source, FolderSource) and source.has_class_maps else None
    for frame in source:
        truth = source.truth(frame.index) if isinstance(source, (Scene, EncodedScene)) else None
        objects = source.objects(frame.index) if isinstance(source, KnowsObjects) else None
        shot = Shot(image=frame.image, stamp_ns=frame.stamp_ns, truth=truth, objects=objects, marked=marked)
        yield replace(shot, read_class_map=partial(drawn.class_map, frame)) if drawn else shot


def varied_images(images: Sequence[Image]) -> Iterator[Image]:
    """Yield different images of one size: three of the given ones, and photographs unrelated to them."""
    height, width = images[0].shape[:2]
    for index in sorted({0, len(images) // 2, len(images) - 1}):
        yield images[index]
    for photograph in load_photographs(Gallery.TEST):
        yield np.asarray(cv2.resize(photograph, (width, height)), np.uint8)


class Pattern(Enum):
    """The places where pixels change."""

    BLOB = "blob"
    """Pixels change in one square, somewhere else each time."""
    SCATTER = "scatter"
    """Single pixels change all over the image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How much of an image changes from frame to frame.

    Attributes:
        share: share of the pixels that change, 0 to 1.
    """

    share: float
    pattern: Pattern = Pattern.BLOB

    @classmethod
    def parse(cls, text: str) -> Change:
        """Read "0.05", "0.05:blob" or "0.05:scatter".

        Raises:
            ConfigError: the text has no such form, or the share is not between 0 and 1.
        """
        share, _, pattern = text.partition(":")
        try:
            change = cls(share=float(share), pattern=Pattern(pattern or "blob"))
        except ValueError:
            change = cls(share=math.nan)
        if not 0 <= change.share <= 1:
            raise ConfigError(f"changed {text!r}: expected a share of the pixels from 0 to 1, then :blob or :scatter")
        return change

    def pixels(self, size: tuple[int, int], rng: np.random.Generator) -> Mask:
        """Draw the pixels that change this time, bool [height, width]: the given share, or the nearest square."""
        mask = np.zeros(size, np.bool_)
        wanted = round(self.share * mask.size)
        if self.pattern is Pattern.SCATTER:
            mask.ravel()[rng.choice(mask.size, wanted, replace=False)] = True
            return mask
        height, width = _square(wanted, size)
        top, left = rng.integers(size[0] - height + 1), rng.integers(size[1] - width + 1)
        mask[top : top + height, left : left + width] = True
        return mask


def _square(pixels: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return the (height, width) of a square of so many pixels, or of a rectangle where the image is too small."""
    height = min(size[0], round(math.sqrt(pixels)))
    width = min(size[1], round(pixels / max(height, 1)))
    return min(size[0], round(pixels / max(width, 1))), width


def changing(change: Change, size: tuple[int, int], seed: int = 0) -> Iterator[Shot]:
    """Yield a photograph that turns into others bit by bit, without end.

    Each frame comes with its cache map, exact to the pixel, as no matcher could find it in no time. Every pixel that
    the map does not call reusable differs from the frame before in at least one channel.

    Args:
        size: (height, width) of the frames: the model's, so that no resizing spreads the change.
    """
    rng = np.random.default_rng(seed)
    pictures = [np.asarray(cv2.resize(p, size[::-1]), np.uint8) for p in load_photographs(Gallery.TEST)]
    image = pictures[0]
    yield Shot(image=image)
    for number in count(1):
        mask = change.pixels(size, rng)
        other = np.roll(pictures[number % len(pictures)], rng.integers(0, size), axis=(0, 1))
        image = _replaced(image, other, mask)
        yield Shot(image=image, cache_map=_exact_map(~mask))


def _replaced(image: Image, other: Image, mask: Mask) -> Image:
    result = np.where(mask[:, :, None], other, image)
    unchanged = mask & (result == image).all(axis=2)
    result[unchanged] ^= 0x80
    return result


def _exact_map(reusable: Mask) -> CacheMap:
    """Make the map in blocks of one pixel."""
    return CacheMap.of_blocks(reusable, (reusable.shape[0], reusable.shape[1]), 1, Motion.none())
