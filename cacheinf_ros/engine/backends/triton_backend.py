# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels in Triton, on a GPU; its interpreter runs them on the CPU too, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.backends.backend import Executor
from cacheinf_ros.engine.backends.native_backend import NativeBackend, NativeInputWriter
from cacheinf_ros.engine.backends.reference_backend import ReferenceBackend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.gpu.pixel_launch import Tiles
from cacheinf_ros.engine.gpu.triton_executor import TritonExecutor
from cacheinf_ros.engine.gpu.triton_kernels import TritonKernels
from cacheinf_ros.engine.input import Image, InputWriter
from cacheinf_ros.engine.kernels.prepared import PixelFunction, PreparedKernel
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.graph.ir import Levels, Operator


class TritonBackend(ReferenceBackend):
    """See :class:`Backend`. Maps move as in plain torch, which also computes what no kernel does.

    Attributes:
        name: for messages.
        device: where the maps are.
        takes_levels, floats: see :class:`Backend`.
        strip_bytes: see :class:`Backend`; 0.
    """

    def __init__(
        self,
        device: torch.device,
        tiles: Tiles | None = None,
        *,
        host: NativeBackend | None = None,
        floats: torch.dtype = torch.float32,
    ) -> None:
        """Prepare nothing yet.

        Args:
            tiles: None: those for the device.
            host: compares frames with what was seen, before what changed is uploaded; None: torch does.
            floats: what convolutions multiply, and the type in which feature maps are kept: float32, float16, bfloat16.
        """
        super().__init__(device)
        self._host = host
        self._tiles = tiles or (Tiles() if device.type == "cuda" else Tiles.interpreted())
        self.floats = floats
        self._launches = TritonKernels(device, self._tiles, floats)
        where = torch.cuda.get_device_name(device) if device.type == "cuda" else "interpreted"
        kind = "" if floats is torch.float32 else f", {str(floats).removeprefix('torch.')}"
        self.name = f"triton ({where}{kind})"

    def prepare(
        self, operator: Operator, sources: Sequence[MapBuffer], channels: int, levels: Levels | None = None
    ) -> PreparedKernel:
        """See :meth:`Backend.prepare`."""
        return self.prepare_together(operator, sources, channels, 1, levels)

    def prepare_together(
        self,
        operator: Operator,
        sources: Sequence[MapBuffer],
        channels: int,
        cameras: int,
        levels: Levels | None = None,
    ) -> PreparedKernel:
        """Prepare a local operator of several cameras, whose maps lie below one another in each source."""
        launch = None if levels is not None else self._launches.prepare(operator, sources, channels, cameras)
        if launch is None:
            parts = [[source.part(camera, cameras) for source in sources] for camera in range(cameras)]
            plain = super().prepare
            functions = [plain(operator, part, channels, levels).function for part in parts]
            return PreparedKernel(function=functions[0] if cameras == 1 else _of_all(functions))
        return PreparedKernel(launch=launch, function=launch.function())

    def executor_together(self, executable: Executable, maps: Mapping[str, MapBuffer], cameras: int) -> TritonExecutor:
        """Prepare a plan of several cameras: see :class:`TritonExecutor`."""
        return TritonExecutor(executable, self.device, self._tiles, maps, cameras)

    def executor(self, executable: Executable) -> Executor:
        """See :meth:`Backend.executor`. Where another machine shares the frame, sets are on the host, as it needs
        them there.
        """
        if executable.replicas is not None:
            return super().executor(executable)
        return TritonExecutor(executable, self.device, self._tiles)

    def input(self, preprocessor: Preprocessor, target: MapBuffer) -> InputWriter:
        """See :meth:`Backend.input`."""
        if self._host is None:
            return super().input(preprocessor, target)
        return UploadingInputWriter(preprocessor, target, self._host)


def _of_all(functions: Sequence[PixelFunction | None]) -> PixelFunction:
    """From functions of one camera's pixels each to one of all pixels of all cameras, behind one another."""

    def compute(everything: torch.Tensor) -> torch.Tensor:
        own = everything[: len(everything) // len(functions)]
        return torch.cat([function(own) for function in functions if function is not None])

    return compute


class UploadingInputWriter(NativeInputWriter):
    """See :class:`InputWriter`. Compiled kernels find on the CPU what changed; only that is uploaded."""

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer, host: NativeBackend) -> None:
        self._uploaded_to = target.pixels
        self._host = host  # whose threads are used
        staged = MapBuffer.allocate(target.size, target.pixels.shape[1], host.device)
        super().__init__(preprocessor, staged, host.library, host.threads)

    def write(self, resized: Image, changed: ActiveSet, *, everything: bool) -> None:
        """See :meth:`InputWriter.write`."""
        super().write(resized, changed, everything=everything)
        self._upload(changed)

    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """See :meth:`InputWriter.paint`."""
        super().paint(resized, motion, unseen, changed, everything=everything)
        self._upload(changed)

    def _upload(self, changed: ActiveSet) -> None:
        staged, target = self._target.pixels, self._uploaded_to
        if changed.count == changed.pixels:
            target.copy_(staged.to(target.dtype))
            return
        listed = torch.from_numpy(changed.listed)
        target[listed.to(target.device)] = staged[listed].to(target.dtype).to(target.device)  # rounded: less to upload
