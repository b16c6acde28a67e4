# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels in Triton, on a GPU; its interpreter runs them on the CPU too, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch

from cacheinf_ros.engine.backends.backend import Executor
from cacheinf_ros.engine.backends.gpu_input import DeviceInputWriter, UploadingInputWriter, compares_on_device
from cacheinf_ros.engine.backends.native_backend import NativeBackend
from cacheinf_ros.engine.backends.reference_backend import ReferenceBackend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.gpu.pixel_launch import Tiles
from cacheinf_ros.engine.gpu.triton_executor import TritonExecutor
from cacheinf_ros.engine.gpu.triton_kernels import TritonKernels
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.kernels.prepared import PixelFunction, PreparedKernel
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.graph import Shared, SharedValues
from cacheinf_ros.graph.ir import Levels, Operator


class TritonBackend(ReferenceBackend):
    """The :class:`Backend` of kernels in Triton; plain torch moves maps, and computes the operators without a kernel.

    Attributes:
        name: for messages.
        device: where the maps are.
        takes_levels, floats, mixes_floats: see :class:`Backend`.
        strip_bytes: see :class:`Backend`; 0.
    """

    def __init__(
        self,
        device: torch.device,
        tiles: Tiles | None = None,
        *,
        host: NativeBackend | None = None,
        floats: torch.dtype = torch.float32,
        compares: bool | None = None,
        shared: SharedValues | None = None,
    ) -> None:
        """Set up the kernels, without preparing an operator yet.

        Args:
            tiles: the tiles of the kernels; None: those for the device.
            host: the backend that compares frames with what was seen, before what changed is uploaded; None: torch
                does.
            floats: what convolutions multiply, and the type in which feature maps are kept: float32, float16, bfloat16.
            compares: whether frames are compared on the device although there is a host; None: where that is faster.
            shared: the shared values of the model: what is faster is measured once for all of its backends.
        """
        super().__init__(device)
        self._host = host
        self._compares = compares
        self._shared = SharedValues() if shared is None else shared
        self._faster: Shared[bool] | None = None
        self._tiles = tiles or (Tiles.of_floats(floats) if device.type == "cuda" else Tiles.interpreted())
        self.floats = floats
        self._launches = TritonKernels(device, self._tiles, floats)
        where = torch.cuda.get_device_name(device) if device.type == "cuda" else "interpreted"
        kind = "" if floats is torch.float32 else f", {str(floats).removeprefix('torch.')}"
        self.name = f"triton ({where}{kind})"

    def prepare(
        self, operator: Operator, sources: Sequence[MapBuffer], channels: int, out: Levels | torch.dtype | None = None
    ) -> PreparedKernel:
        """Implement :meth:`Backend.prepare`."""
        return self.prepare_together(operator, sources, channels, 1, out)

    def prepare_together(
        self,
        operator: Operator,
        sources: Sequence[MapBuffer],
        channels: int,
        cameras: int,
        out: Levels | torch.dtype | None = None,
    ) -> PreparedKernel:
        """Prepare a local operator of several cameras, whose maps lie below one another in each source."""
        launch = None if isinstance(out, Levels) else self._launches.prepare(operator, sources, channels, cameras)
        if launch is None:
            parts = [[source.part(camera, cameras) for source in sources] for camera in range(cameras)]
            plain = super().prepare
            functions = [plain(operator, part, channels, out).function for part in parts]
            return PreparedKernel(function=functions[0] if cameras == 1 else _of_all(functions))
        return PreparedKernel(launch=launch, function=launch.function())

    def executor_together(self, executable: Executable, maps: Mapping[str, MapBuffer], cameras: int) -> TritonExecutor:
        """Prepare a plan of several cameras: see :class:`TritonExecutor`."""
        return TritonExecutor(executable, self.device, self._tiles, maps, cameras)

    def executor(self, executable: Executable) -> Executor:
        """Implement :meth:`Backend.executor`.

        Where another machine shares the frame, active sets are on the host, which must tell that machine of them.
        """
        if executable.replicas is not None:
            return super().executor(executable)
        return TritonExecutor(executable, self.device, self._tiles)

    def input(self, preprocessor: Preprocessor, target: MapBuffer, *, on_host: bool = False) -> InputWriter:
        """Implement :meth:`Backend.input`."""
        host = self._host
        if host is None:
            return super().input(preprocessor, target)
        compares = self._compares
        if compares is None and not on_host:
            key = "frames compared", preprocessor.size, self.name
            make = partial(compares_on_device, preprocessor, target, host)
            self._faster = self._shared.get(self._shared, key, make)
            compares = self._faster.value
        if on_host or not compares:
            return UploadingInputWriter(preprocessor, target, host)
        return DeviceInputWriter(preprocessor, target, host)


def _of_all(functions: Sequence[PixelFunction | None]) -> PixelFunction:
    """Combine functions of one camera's pixels each into one of the pixels of all cameras, one behind the other."""

    def compute(everything: torch.Tensor) -> torch.Tensor:
        own = everything[: len(everything) // len(functions)]
        return torch.cat([function(own) for function in functions if function is not None])

    return compute
