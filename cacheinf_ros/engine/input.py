# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The model's input as the cache holds it: which of its pixels a frame changes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine.buffers import MapBuffer, move_pixels
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.preprocess import Preprocessor

Image = NDArray[np.uint8]


class InputWriter(ABC):
    """Writes the pixels of a frame that a cache map leaves to compute, where they differ from what is there.

    Attributes:
        composed: uint8 [height, width, 3]: the frame where it was touched, what was there before elsewhere; exact
            execution would start from it.
        seen: uint8 [height, width, 3]: what the target holds, before it was normalised.
    """

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer) -> None:
        self._preprocessor = preprocessor
        self._target = target
        self.composed = np.zeros((*preprocessor.size, 3), np.uint8)
        self.seen = np.zeros_like(self.composed)
        self._touched = ActiveSet(preprocessor.size)
        self._blocks: tuple[tuple[object, ...], ActiveSet, TapTable] | None = None
        self.set_threshold(None)

    @abstractmethod
    def write(self, resized: Image, changed: ActiveSet, *, everything: bool) -> None:
        """Write the touched pixels that differ from what is there (with ``everything`` all touched ones); say which."""

    @abstractmethod
    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """Write, where the camera has moved, the pixels that show, after the motion, any that are touched.

        Args:
            motion: input -> frame, in pixels of the input.
            unseen: see :meth:`Brush.paint`; the frame's border, continued, is a first guess.
        """

    @abstractmethod
    def _propagate(self, table: TapTable, blocks: ActiveSet) -> None:
        """Touch the pixels that read one of the blocks, of which only the mask is right."""

    def set_threshold(self, delta: DeltaThreshold | None) -> None:
        """What change of a pixel is too small to be passed on; None: none at all. Its criterion must be ENERGY."""
        self._delta = delta or DeltaThreshold(threshold=0.0, criterion=Criterion.ENERGY)
        assert self._delta.criterion is Criterion.ENERGY

    def touch_all(self) -> None:
        """The whole frame counts."""
        self._touched.fill()

    def write_all(self, resized: Image, changed: ActiveSet) -> None:
        """Write a whole frame, all of whose pixels then count as changed."""
        self.touch_all()
        self.write(resized, changed, everything=True)

    def touch_pixels(self, mask: NDArray[np.uint8]) -> None:
        """Let only these pixels of the input count; uint8 [height, width], 0 or 1."""
        np.copyto(self._touched.mask, mask)
        self._touched.use_mask()

    def touch(self, cache_map: CacheMap, *, with_margin: bool = False) -> None:
        """Let only what depends on an active pixel of the frame count, and with ``with_margin`` what shows no frame."""
        key = (cache_map.image_size, cache_map.block_size)
        if self._blocks is None or self._blocks[0] != key:
            shape = (cache_map.reusable.shape[0], cache_map.reusable.shape[1])
            self._blocks = (key, ActiveSet(shape), self._preprocessor.taps_of_blocks(cache_map))
        _, blocks, table = self._blocks
        np.logical_not(cache_map.reusable, out=blocks.mask.view(np.bool_))
        self._propagate(table, blocks)
        if with_margin and (place := self._preprocessor.place(cache_map.image_size)).has_margin:
            margin = np.ones(self._touched.size, np.bool_)
            margin[place.content] = False
            self._touched.mask[margin] = 1
            self._touched.use_mask()

    def move(self, dx: int, dy: int) -> None:
        """Move the picture by whole pixels; what enters at the border keeps stale values."""
        for image in (self.composed, self.seen):
            move_pixels(torch.from_numpy(image), dx, dy)
