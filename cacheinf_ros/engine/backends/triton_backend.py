# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels in Triton, on a GPU; its interpreter runs them on the CPU too, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cacheinf_ros.engine.backends.backend import Executor
from cacheinf_ros.engine.backends.reference_backend import ReferenceBackend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.gpu.pixel_launch import Tiles
from cacheinf_ros.engine.gpu.triton_executor import TritonExecutor
from cacheinf_ros.engine.gpu.triton_kernels import TritonKernels
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.graph.ir import Levels, Operator


class TritonBackend(ReferenceBackend):
    """See :class:`Backend`. Frames enter, and maps move, as in plain torch; so does what no kernel computes.

    Attributes:
        name: for messages.
        device: where the maps are.
        takes_levels: see :class:`Backend`.
    """

    def __init__(self, device: torch.device, tiles: Tiles | None = None, *, bfloat16: bool = False) -> None:
        """Prepare nothing yet.

        Args:
            tiles: None: those for the device.
            bfloat16: whether convolutions round inputs and weights to it.
        """
        super().__init__(device)
        self._tiles = tiles or (Tiles() if device.type == "cuda" else Tiles.interpreted())
        self._launches = TritonKernels(device, self._tiles, bfloat16=bfloat16)
        where = torch.cuda.get_device_name(device) if device.type == "cuda" else "interpreted"
        self.name = f"triton ({where}{', bfloat16' if bfloat16 else ''})"

    def prepare(
        self, operator: Operator, sources: Sequence[MapBuffer], channels: int, levels: Levels | None = None
    ) -> PreparedKernel:
        """See :meth:`Backend.prepare`."""
        plain = super().prepare(operator, sources, channels, levels)
        launch = self._launches.prepare(operator, sources, channels)
        return plain if launch is None else PreparedKernel(launch=launch, function=launch.function())

    def executor(self, executable: Executable) -> Executor:
        """See :meth:`Backend.executor`. Where another machine shares the frame, sets are on the host, as it needs
        them there.
        """
        if executable.replicas is not None:
            return super().executor(executable)
        return TritonExecutor(executable, self.device, self._tiles)
