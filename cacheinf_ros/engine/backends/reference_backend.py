# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plain torch, on any device: what the compiled kernels are tested against, and what runs where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.backends.backend import Executor
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.propagation import TapTable, propagate
from cacheinf_ros.engine.execution.reference_executor import ReferenceExecutor
from cacheinf_ros.engine.input import Image, InputWriter
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.engine.kernels.reference_kernels import ReferenceKernels
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.geometry import Brush
from cacheinf_ros.graph.ir import Levels, Operator


class ReferenceBackend:
    """The :class:`Backend` in plain torch, for any device.

    Attributes:
        name: for messages.
        device: where the maps are.
        takes_levels, floats, mixes_floats: see :class:`Backend`.
        strip_bytes: see :class:`Backend`; 0.
    """

    def __init__(self, device: torch.device, threads: int | None = None) -> None:
        """Prepare; ``threads``: in how many threads a processor computes, None: in torch's own number."""
        self._threads = threads
        self.name = "reference"
        self.device = device
        self.takes_levels = False
        self.floats = torch.float32
        self.mixes_floats = True
        self.strip_bytes = 0
        self._kernels = ReferenceKernels(device)

    def prepare(
        self, operator: Operator, sources: Sequence[MapBuffer], channels: int, out: Levels | torch.dtype | None = None
    ) -> PreparedKernel:
        """Implement :meth:`Backend.prepare`."""
        if isinstance(out, Levels):
            raise TypeError(f"{operator.name}: there are no reference kernels on levels")
        return PreparedKernel(function=self._kernels.prepare(operator, sources, channels))

    def executor(self, executable: Executable) -> Executor:
        """Implement :meth:`Backend.executor`."""
        return ReferenceExecutor(executable, self.device, self._threads)

    def input(self, preprocessor: Preprocessor, target: MapBuffer, *, on_host: bool = False) -> InputWriter:
        """Implement :meth:`Backend.input`."""
        return ReferenceInputWriter(preprocessor, target)

    def shift(self, moves: Sequence[tuple[MapBuffer, int, int]]) -> None:
        """Implement :meth:`Backend.shift`."""
        for buffer, right, down in moves:
            buffer.move(right, down)
            buffer.expose(right, down)

    def awake(self) -> AbstractContextManager[None]:
        """Return a context that does nothing, as there is no thread to keep awake."""
        return nullcontext()


class ReferenceInputWriter(InputWriter):
    """The :class:`InputWriter` in numpy and plain torch."""

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer) -> None:
        super().__init__(preprocessor, target)
        self._brush = Brush(preprocessor.size)

    def write(self, image: Image, changed: ActiveSet, *, everything: bool) -> None:
        """Implement :meth:`InputWriter.write`."""
        touched = self._touched.mask.view(np.bool_)
        self._composed[touched] = image[touched]
        if not everything:
            values, seen = (self._preprocessor.normalise(each) for each in (image, self.seen))
            change = self._delta.change(values.reshape(-1, 3), seen.reshape(-1, 3)).reshape(touched.shape)
            touched = touched & (change > self._delta.threshold)
        self.seen[touched] = image[touched]
        np.copyto(changed.mask, touched)
        changed.use_mask()
        listed = torch.from_numpy(changed.listed).long().to(self._target.pixels.device)
        normalised = torch.from_numpy(self._preprocessor.normalise(image[touched]))
        self._target.pixels[listed] = normalised.to(self._target.pixels)

    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """Implement :meth:`InputWriter.paint`."""
        painted = np.empty_like(resized)
        touched = self._brush.paint(resized, self._touched.mask, motion, painted, unseen)
        self.touch_pixels(touched)
        self.write(painted, changed, everything=everything)

    def _propagate(self, table: TapTable, blocks: ActiveSet) -> None:
        blocks.use_mask()
        propagate(table, blocks, self._touched)
