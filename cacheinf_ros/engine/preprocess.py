"""From a camera frame to the model's input: resize and normalise, and the same for what is reusable."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph.card import ModelCard

Size = tuple[int, int]


class Preprocessor:
    """Resizes to the model's input (bilinear; by area where it shrinks to half or less) and normalises."""

    def __init__(self, card: ModelCard) -> None:
        assert card.input_size is not None
        self._size = card.input_size
        levels = np.arange(256, dtype=np.float32) * np.float32(card.scale)
        table = (levels - np.array(card.mean, np.float32)[:, None]) / np.array(card.std, np.float32)[:, None]
        self._order = (0, 1, 2) if card.channel_order == "bgr" else (2, 1, 0)
        self._table = table.astype(np.float32)  # [channel of the input, 256]

    def resize(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """uint8 [height, width, 3] at the model's size.

        Raises:
            EngineError: the image is not [height, width, 3] of uint8.
        """
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
            raise EngineError(f"a frame is uint8 [height, width, 3], not {image.dtype} {image.shape}")
        if image.shape[:2] == self._size:
            return image
        shrinks = image.shape[0] >= 2 * self._size[0] and image.shape[1] >= 2 * self._size[1]
        return cv2.resize(  # type: ignore[return-value]
            image, self._size[::-1], interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        )

    def normalise(self, resized: NDArray[np.uint8], rows: NDArray[np.int32], target: NDArray[np.float32]) -> None:
        """Write the listed pixels, normalised, into target float32 [height * width, 3]."""
        pixels = resized.reshape(-1, 3)
        everything = len(rows) == len(pixels)
        chosen = pixels if everything else pixels[rows]
        values = np.empty((len(chosen), 3), np.float32)
        for channel, source in enumerate(self._order):
            np.take(self._table[channel], chosen[:, source], out=values[:, channel])
        target[slice(None) if everything else rows] = values

    def input(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """float32 [1, 3, height, width]: the model's input, for dense execution."""
        resized = self.resize(image)
        rows = np.arange(resized.shape[0] * resized.shape[1], dtype=np.int32)
        target = np.empty((len(rows), 3), np.float32)
        self.normalise(resized, rows, target)
        return np.ascontiguousarray(target.reshape(1, *self._size, 3).transpose(0, 3, 1, 2))

    def active_mask(self, mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """The pixels of the input that depend on an active pixel of the frame, uint8 at the model's size."""
        for axis in (0, 1):
            if mask.shape[axis] != self._size[axis]:
                mask = _any_along(mask, axis, *_footprint(mask.shape[axis], self._size[axis]))
        return mask.astype(np.uint8)

    def scale_shift(self, shift: tuple[float, float], image_size: Size) -> tuple[float, float]:
        """(dx, dy) in pixels of the frame -> in pixels of the input."""
        return shift[0] * self._size[1] / image_size[1], shift[1] * self._size[0] / image_size[0]


def _footprint(source: int, target: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last source pixel that each target pixel may depend on, bilinear or by area."""
    scale = source / target
    centre = (np.arange(target) + 0.5) * scale - 0.5
    reach = max(1.0, scale / 2 + 0.5)
    first = np.clip(np.floor(centre - reach + 1e-9).astype(np.int64) + (reach == 1.0), 0, source - 1)
    last = np.clip(np.ceil(centre + reach - 1e-9).astype(np.int64) - (reach == 1.0), 0, source - 1)
    return first, np.maximum(last, first)


def _any_along(
    mask: NDArray[np.bool_], axis: int, first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[np.bool_]:
    result = mask.take(first, axis)
    for step in range(1, int((last - first).max()) + 1):
        result |= mask.take(np.minimum(first + step, last), axis)
    return result
