# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Writes frames into the model's input by numpy and OpenCV."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.propagation import TapTable, propagate
from cacheinf_ros.engine.input import Image, InputWriter
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.geometry.painting import Brush


class ReferenceInputWriter(InputWriter):
    """See :class:`InputWriter`."""

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer) -> None:
        super().__init__(preprocessor, target)
        self._brush = Brush(preprocessor.size)

    def write(self, resized: Image, changed: ActiveSet, *, everything: bool) -> None:
        """See :meth:`InputWriter.write`."""
        touched = self._touched.mask.view(np.bool_)
        self.composed[touched] = resized[touched]
        if not everything:
            values, seen = (self._preprocessor.normalise(image) for image in (resized, self.seen))
            change = self._delta.change(values.reshape(-1, 3), seen.reshape(-1, 3)).reshape(touched.shape)
            touched = touched & (change > self._delta.threshold)
        self.seen[touched] = resized[touched]
        np.copyto(changed.mask, touched)
        changed.use_mask()
        listed = torch.from_numpy(changed.listed).long().to(self._target.pixels.device)
        normalised = torch.from_numpy(self._preprocessor.normalise(resized[touched]))
        self._target.pixels[listed] = normalised.to(listed.device)

    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """See :meth:`InputWriter.paint`."""
        painted = np.empty_like(resized)
        touched = self._brush.paint(resized, self._touched.mask, motion, painted, unseen)
        self.touch_pixels(touched)
        self.write(painted, changed, everything=everything)

    def _propagate(self, table: TapTable, blocks: ActiveSet) -> None:
        blocks.use_mask()
        propagate(table, blocks, self._touched)
