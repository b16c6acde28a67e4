# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames from a folder of images, with masks, labelled boxes or class maps where somebody has made these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources.coco_labels import CocoLabels, read_coco_labels
from cacheinf_ros.sources.frame import Frame
from cacheinf_ros.sources.label_maps import has_label_maps, read_label_map
from cacheinf_ros.sources.objects import TrueObject, masked_objects
from cacheinf_ros.sources.value_range import ValueRange

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
_ASSUMED_FPS = 30.0
_MASK_SUFFIX = ".png"
_MASKED_SUFFIXES = (".jpg", ".jpeg")


class FolderSource:
    """The images of a folder in natural order ("frame9.png" before "frame10.png"), as if taken at 30 frames/s.

    A PNG file beside a JPEG file of the same name ("00007.png", "00007.jpg") is not a frame but the mask of the objects
    in the JPEG, one object for each colour except black, as in DAVIS. A JSON file in COCO's format holds boxes with
    their classes; it is read when objects are first asked for. A folder "labels" holds class maps, "labels/00007.png".

    Args:
        path: the folder.
        value_range: which values of more than 8 bits, one to a pixel, are black and white; None: the upper byte of 16
            bits is kept.

    Raises:
        SourceError: the folder cannot be read or holds no image.
    """

    def __init__(self, path: Path, value_range: ValueRange | None = None) -> None:
        self.name = path.resolve().name
        self.fps: float = _ASSUMED_FPS
        self._path = path
        self._value_range = value_range
        images = _images(path)
        self._masks = _masks(images)
        self.paths = tuple(
            sorted(set(images) - set(self._masks.values()), key=lambda path: (natural_order(path), path.name))
        )
        if not self.paths:
            suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
            raise SourceError(f"{path}: neither a bag nor a folder of images; it has no {suffixes} file")
        self.length: int | None = len(self.paths)

    def __iter__(self) -> Iterator[Frame]:
        """Yield one frame per file; raises :class:`SourceError` naming a file that is not a picture."""
        for index, path in enumerate(self.paths):
            yield Frame(index=index, stamp_ns=round(index * 1e9 / self.fps), image=read_image(path, self._value_range))

    def objects(self, index: int) -> tuple[TrueObject, ...] | None:
        """Implement :meth:`cacheinf_ros.sources.objects.KnowsObjects.objects`; masks do not tell classes.

        Raises:
            SourceError: the folder's labels cannot be read.
        """
        path = self.paths[index]
        if self._labels is not None:
            return self._labels.objects.get(path.name)
        mask = self._masks.get(path)
        return None if mask is None else masked_objects(read_image(mask))

    def class_map(self, frame: Frame) -> NDArray[np.uint8] | None:
        """Return the class map that somebody drew for a frame of this source, see :func:`read_label_map`.

        Raises:
            SourceError: the map cannot be read, or is not of the frame's size.
        """
        path = self.paths[frame.index]
        class_map = read_label_map(path)
        if class_map is not None and class_map.shape != frame.image.shape[:2]:
            sizes = " and ".join(f"{height}x{width}" for height, width in (class_map.shape, frame.image.shape[:2]))
            raise SourceError(f"{path} and its class map in labels/ differ in size: {sizes}; draw it anew")
        return class_map

    @property
    def has_class_maps(self) -> bool:
        """Whether class maps were drawn for the folder's pictures."""
        return has_label_maps(self._path)

    def classes(self) -> tuple[str, ...]:
        """Implement :meth:`cacheinf_ros.sources.objects.KnowsObjects.classes`; raises as :meth:`objects` does."""
        return () if self._labels is None else self._labels.classes

    @cached_property
    def _labels(self) -> CocoLabels | None:
        return read_coco_labels(self._path)


def natural_order(path: Path) -> tuple[tuple[int, int | str], ...]:
    """Return a sorting key under which numbers in a name count as numbers."""
    parts = re.split(r"([0-9]+)", path.name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part.casefold()) for part in parts if part)


def read_image(path: Path, value_range: ValueRange | None = None) -> NDArray[np.uint8]:
    """Read a picture, uint8 [height, width, 3], BGR; raises :class:`SourceError` where that fails.

    Args:
        path: the file.
        value_range: which values of more than 8 bits, one to a pixel, are black and white; None: the upper byte of 16
            bits is kept.
    """
    if value_range is not None:
        raw = cv2.imread(str(path), cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH)
        if raw is not None and raw.ndim == 2:
            return value_range.to_bgr(raw)
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise SourceError(f"{path}: not a readable picture; remove it from the folder or repair it")
    return np.asarray(image, np.uint8)


def _images(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()]
    except OSError as error:
        raise SourceError(f"{folder}: cannot be listed ({error.strerror}); check its permissions") from None


def _masks(images: list[Path]) -> dict[Path, Path]:
    """Return the mask of each frame that has one."""
    pictures = {path.stem: path for path in images if path.suffix.lower() in _MASKED_SUFFIXES}
    masks = [path for path in images if path.suffix.lower() == _MASK_SUFFIX]
    return {pictures[mask.stem]: mask for mask in masks if mask.stem in pictures}
