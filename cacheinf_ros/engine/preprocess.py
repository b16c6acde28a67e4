# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Converts camera frames to the model's input (resizing and normalising), and cache maps and motions with them."""

from __future__ import annotations

import hashlib

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine.execution.propagation import BEFORE, TapTable
from cacheinf_ros.engine.frame_placement import Placement
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import ModelCard

Size = tuple[int, int]
MARGIN = 114
"""The grey level of pixels that show nothing of the frame."""


def values_digest(card: ModelCard) -> str:
    """Return a hash of the values that the card has images' pixels turned into, on which scales for int8 depend."""
    preprocessor = Preprocessor(card)
    return hashlib.sha256(preprocessor.table.tobytes() + bytes(preprocessor.order)).hexdigest()[:8]


class Preprocessor:
    """Resizes frames to the model's input, with a margin where the card asks for one, and normalises them.

    Resizing is bilinear, or by area where the frame shrinks to half or less.

    Attributes:
        size: (height, width) of the model's input.
        order: which channel of a BGR image each channel of the input is.
        table: float32 [3, 256]: the value of each level, for each channel of the input.
    """

    def __init__(self, card: ModelCard) -> None:
        assert card.input_size is not None
        self.size = card.input_size
        self._resize, self._pictures = card.resize, card.pictures
        levels = np.arange(256, dtype=np.float32) * np.float32(card.scale)
        table = (levels - np.array(card.mean, np.float32)[:, None]) / np.array(card.std, np.float32)[:, None]
        self.order = (0, 1, 2) if card.channel_order == "bgr" else (2, 1, 0)
        self.table = np.ascontiguousarray(table, np.float32)

    def resize(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Resize a frame to uint8 [height, width, 3] at the model's size, contiguous.

        Raises:
            EngineError: the image is not [height, width, 3] of uint8.
        """
        check_frame(image)
        if image.shape[:2] == self.size:
            return np.ascontiguousarray(image)
        place = self.place((image.shape[0], image.shape[1]))
        if not place.has_margin:
            return _resized(image, self.size)
        resized = np.full((*self.size, 3), MARGIN, np.uint8)
        resized[place.content] = _resized(image, place.size)
        return resized

    def place(self, image_size: Size) -> Placement:
        """Return where frames of (height, width) lie in the input.

        Raises:
            EngineError: the card says that frames show several pictures side by side, which divide no such width.
        """
        if image_size[1] % self._pictures:
            raise EngineError(
                f"a frame of {image_size[0]}x{image_size[1]} does not show {self._pictures} pictures of one size, side "
                "by side"
            )
        return Placement.of(image_size, self.size, self._resize)

    def normalise(self, resized: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Normalise uint8 [height, width, 3] to float32 [height, width, 3], with the channels in the model's order."""
        values = np.empty(resized.shape, np.float32)
        for channel, source in enumerate(self.order):
            np.take(self.table[channel], resized[..., source], out=values[..., channel])
        return values

    def input(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the model's input for dense execution, float32 [1, 3, height, width]."""
        resized, values = self.resize(image), np.empty((1, 3, *self.size), np.float32)
        for channel, source in enumerate(self.order):
            cv2.LUT(cv2.extractChannel(resized, source), self.table[channel], values[0, channel])
        return values

    def taps_of_blocks(self, cache_map: CacheMap) -> TapTable:
        """Return which blocks of a frame each pixel of the input depends on."""
        place = self.place(cache_map.image_size)
        sizes = zip(cache_map.image_size, place.size, cache_map.reusable.shape, strict=True)
        axes = zip(sizes, self.size, (place.top, place.left), strict=True)
        rows, columns = (
            _with_margin(_blocks(*sides, cache_map.block_size), whole, before) for sides, whole, before in axes
        )
        return TapTable(rows=rows, columns=columns)

    def in_input(self, motion: Motion, image_size: Size) -> Motion:
        """Convert a motion in pixels of the frame to pixels of the input."""
        return self.place(image_size).in_input(motion)

    def scale_shift(self, shift: tuple[float, float], image_size: Size) -> tuple[float, float]:
        """Convert a shift (dx, dy) in pixels of the frame to pixels of the input."""
        across, along = self.place(image_size).scale
        return shift[0] * across, shift[1] * along


def check_frame(image: NDArray[np.uint8]) -> None:
    """Raise :class:`EngineError` where a frame is not [height, width, 3] of uint8."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        raise EngineError(f"a frame is uint8 [height, width, 3], not {image.dtype} {image.shape}")


def shrinks(image_size: Size, size: Size) -> bool:
    """Tell whether a frame shrinks so much that it is resized by area."""
    return image_size[0] >= 2 * size[0] and image_size[1] >= 2 * size[1]


def _resized(image: NDArray[np.uint8], size: Size) -> NDArray[np.uint8]:
    by_area = shrinks((image.shape[0], image.shape[1]), size)
    interpolation = cv2.INTER_AREA if by_area else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, size[::-1], interpolation=interpolation), np.uint8)


def _with_margin(taps: NDArray[np.int32], whole: int, before: int) -> NDArray[np.int32]:
    """Extend taps to all pixels of the input, of which ``before`` lie in front of those that show the frame."""
    if len(taps) == whole:
        return taps
    padded = np.full((whole, taps.shape[1]), BEFORE, np.int32)
    padded[before : before + len(taps)] = taps
    return padded


def _blocks(source: int, target: int, blocks: int, block_size: int) -> NDArray[np.int32]:
    """Return the blocks that each target pixel may depend on, int32 [target, taps]."""
    first, last = (np.arange(target), np.arange(target)) if source == target else _footprint(source, target)
    first, last = first // block_size, np.minimum(last // block_size, blocks - 1)
    taps = first[:, None] + np.arange(int((last - first).max()) + 1)
    return np.ascontiguousarray(np.minimum(taps, last[:, None]), np.int32)


def _footprint(source: int, target: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and last source pixel that each target pixel may depend on, bilinear or by area."""
    scale = source / target
    centre = (np.arange(target) + 0.5) * scale - 0.5
    reach = max(1.0, scale / 2 + 0.5)
    first = np.clip(np.floor(centre - reach + 1e-9).astype(np.int64) + (reach == 1.0), 0, source - 1)
    last = np.clip(np.ceil(centre + reach - 1e-9).astype(np.int64) - (reach == 1.0), 0, source - 1)
    return first, np.maximum(last, first)
