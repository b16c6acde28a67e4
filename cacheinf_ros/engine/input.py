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
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph.ir import COLOURS

Image = NDArray[np.uint8]


class InputWriter(ABC):
    """Writes the pixels of a frame that a cache map leaves to compute, where they differ from what is there.

    Attributes:
        seen: uint8 [height, width, 3]: what the target holds, before it was normalised.
    """

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer) -> None:
        if preprocessor.size != target.size or target.pixels.shape[1] < COLOURS:  # compiled code trusts that
            raise EngineError(
                f"the model's card says an input of {preprocessor.size} pixels in {COLOURS} colours, the network has "
                f"{target.size} in {target.pixels.shape[1]}: correct input_size, or build the catalog anew"
            )
        self._preprocessor = preprocessor
        self._target = target
        self._composed = np.zeros((*preprocessor.size, 3), np.uint8)
        self.seen = np.zeros_like(self._composed)
        self._touched = ActiveSet(preprocessor.size)
        self._blocks: tuple[tuple[object, ...], ActiveSet, TapTable] | None = None
        self.set_threshold(None)

    @property
    def composed(self) -> Image:
        """The composed image, uint8 [height, width, 3], from which exact execution would start.

        It shows the frame where it was touched, and elsewhere what was there before.
        """
        return self._composed

    def fit(self, image: Image) -> Image:
        """Return a frame as :meth:`write` takes it: at the model's size, or unchanged where :meth:`write` resizes.

        Raises:
            EngineError: the image is not [height, width, 3] of uint8.
        """
        return self._preprocessor.resize(image)

    @abstractmethod
    def write(self, image: Image, changed: ActiveSet, *, everything: bool) -> None:
        """Write the touched pixels that differ from what is there (``everything``: all touched ones), and mark them.

        Args:
            image: as :meth:`fit` returns it, or uint8 [height, width, 3] at the model's size.
            changed: the set in which written pixels are marked; only :meth:`count` may know how many, until the program
                has been executed.
        """

    @abstractmethod
    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """Write, where the camera has moved, each pixel that shows anything touched of the frame after the motion.

        Args:
            motion: input -> frame, in pixels of the input.
            unseen: see :meth:`Brush.paint`; the frame's border, continued, is a first guess.
        """

    @abstractmethod
    def _propagate(self, table: TapTable, blocks: ActiveSet) -> None:
        """Touch the pixels that read one of the blocks; only the mask of ``blocks`` is valid."""

    def set_threshold(self, delta: DeltaThreshold | None) -> None:
        """Set which change of a pixel is too small to be passed on; None: none is. The criterion must be ENERGY."""
        self._delta = delta or DeltaThreshold(threshold=0.0, criterion=Criterion.ENERGY)
        assert self._delta.criterion is Criterion.ENERGY

    def touch_all(self) -> None:
        """Touch all pixels: the whole frame counts."""
        self._touched.fill()

    def write_all(self, image: Image, changed: ActiveSet) -> None:
        """Write a whole frame, all of whose pixels then count as changed."""
        self.touch_all()
        self.write(image, changed, everything=True)

    def write_composed(self, changed: ActiveSet) -> None:
        """Write the composed image as a whole frame, all of whose pixels then count as changed."""
        self.write_all(self._composed, changed)

    def count(self, changed: ActiveSet) -> int:
        """Return how many pixels the last frame changed; where only a device knows this, it is waited for."""
        return changed.count

    def touch_pixels(self, mask: NDArray[np.uint8]) -> None:
        """Touch only the pixels of the input that a mask gives, uint8 [height, width], 0 or 1."""
        np.copyto(self._touched.mask, mask)
        self._touched.use_mask()

    def touch(self, cache_map: CacheMap, *, with_margin: bool = False) -> None:
        """Touch only pixels that depend on an active block of the frame, ``with_margin`` also those outside it."""
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
        for image in (self._composed, self.seen):
            move_pixels(torch.from_numpy(image), dx, dy)
