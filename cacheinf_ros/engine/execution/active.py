# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Active sets: the pixels of a tensor that are computed, or that changed, in a frame."""

from __future__ import annotations

import ctypes

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.kernels.abi import CSet

Size = tuple[int, int]
Mask = NDArray[np.uint8]

_SPARE = 8  # entries that compiled code may write behind the last


class ActiveSet:
    """Some of a tensor's pixels, as a mask and as a list; compiled code works on the same memory.

    Attributes:
        size: (height, width).
        mask: uint8 [height, width], 1 where active.
        all_pixels: int32 [height * width]: the indices of all pixels.
        device_mask: uint8 [height * width] on another device, which replaces the mask where there is one, or None.
    """

    __slots__ = ("_header", "_listed", "all_pixels", "device_mask", "mask", "size")

    def __init__(self, size: Size, all_pixels: NDArray[np.int32] | None = None) -> None:
        """Create an empty set.

        Args:
            size: (height, width).
            all_pixels: int32, 0, 1, 2, ..., for at least as many pixels, which sets may share; None: allocate it.
        """
        pixels = size[0] * size[1]
        self.size = size
        self.mask = np.zeros(size, np.uint8)
        self.all_pixels = (np.arange(pixels, dtype=np.int32) if all_pixels is None else all_pixels)[:pixels]
        self._listed = np.empty(pixels + _SPARE, np.int32)
        addresses = (self.mask.ctypes.data, self._listed.ctypes.data, self.all_pixels.ctypes.data)
        self._header = CSet(*addresses, *size, 0, 0)
        self.device_mask: torch.Tensor | None = None

    @property
    def address(self) -> int:
        """The address of the ``ci_set``; valid as long as this object lives."""
        return ctypes.addressof(self._header)

    @property
    def count(self) -> int:
        """The number of active pixels."""
        return self._header.count

    @count.setter
    def count(self, count: int) -> None:
        """Set the number of active pixels, where only another device has the mask and the list."""
        self._header.count = count

    @property
    def pixels(self) -> int:
        """The number of pixels, active or not."""
        return len(self.all_pixels)

    @property
    def listed(self) -> NDArray[np.int32]:
        """The indices of the active pixels, int32 [count] in row-major order; valid until the set changes."""
        count = self.count
        return self.all_pixels if count == self.pixels else self._listed[:count]

    def fill(self) -> None:
        """Make every pixel active."""
        self.device_mask = None
        self.mask.fill(1)
        self._header.count = self.pixels

    def clear(self) -> None:
        """Make no pixel active."""
        self.device_mask = None
        self.mask.fill(0)
        self._header.count = 0

    def use_mask(self) -> None:
        """List the pixels that are 1 in the mask, and count them."""
        self.device_mask = None
        listed = np.flatnonzero(self.mask.view(np.bool_).ravel())  # numpy is much faster on bool
        self._listed[: len(listed)] = listed
        self._header.count = len(listed)

    def fill_middle(self, share: float) -> None:
        """Make exactly the pixels of a rectangle in the middle active, see :func:`middle`."""
        self.mask.fill(0)
        self.mask[middle(self.size, share)] = 1
        self.use_mask()


def middle(size: Size, share: float) -> tuple[slice, slice]:
    """Return the rows and columns of a rectangle in the middle of a map that has this share of its pixels.

    Args:
        size: (height, width) of the map.
        share: from 0 to 1; the rectangle has at least one pixel.
    """
    height, width = (max(1, round(n * share**0.5)) for n in size)
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    return slice(top, top + height), slice(left, left + width)


def pooled(mask: Mask, size: Size) -> Mask:
    """Resize a mask to (height, width): uint8, 1 where any of the pixels that it covers is 1."""
    if mask.shape == size:
        return mask
    if mask.shape[0] < size[0]:
        return np.asarray(cv2.resize(mask, size[::-1], interpolation=cv2.INTER_NEAREST), np.uint8)
    # in floats, as a single pixel of a large area would be rounded to nothing
    shares = cv2.resize(mask.astype(np.float32), size[::-1], interpolation=cv2.INTER_AREA)
    return np.asarray(shares > 0, np.uint8)
