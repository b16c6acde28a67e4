# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Writes frames to a GPU: compared on the CPU so that only changes are uploaded, or uploaded and compared there."""

from __future__ import annotations

import logging
import time
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.engine.backends.native_backend import NativeBackend, NativeInputWriter
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet, middle
from cacheinf_ros.engine.gpu.frame_on_device import FrameOnDevice
from cacheinf_ros.engine.input import Image, InputWriter
from cacheinf_ros.engine.preprocess import Preprocessor, check_frame

_log = logging.getLogger(__name__)
_BLOCK = 16  # pixels
_ACTIVE, _CHANGED = 0.3, 0.05  # shares of pixels in the frames that are measured
_ROUNDS, _UNCOUNTED = 8, 2  # kernels are compiled and captured in the first rounds


class UploadingInputWriter(NativeInputWriter):
    """An :class:`InputWriter` whose compiled kernels find on the CPU what changed; only that is uploaded."""

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer, host: NativeBackend) -> None:
        self._uploaded_to = target.pixels
        self._host = host  # whose threads are used
        staged = MapBuffer.allocate(target.size, target.pixels.shape[1], host.device)
        super().__init__(preprocessor, staged, host.library, host.threads)

    def write(self, image: Image, changed: ActiveSet, *, everything: bool) -> None:
        """Implement :meth:`InputWriter.write`."""
        super().write(image, changed, everything=everything)
        self._upload(changed)

    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """Implement :meth:`InputWriter.paint`."""
        super().paint(resized, motion, unseen, changed, everything=everything)
        self._upload(changed)

    def _upload(self, changed: ActiveSet) -> None:
        changed.device_mask = None
        staged, target = self._target.pixels, self._uploaded_to
        if changed.count == changed.pixels:
            target.copy_(staged.to(target.dtype))
            return
        listed = torch.from_numpy(changed.listed)
        target[listed.to(target.device)] = staged[listed].to(target.dtype).to(target.device)  # rounded: less to upload


class DeviceInputWriter(UploadingInputWriter):
    """An :class:`InputWriter` that uploads frames whole, as the camera gives them, and resizes and compares them there.

    Where the camera moves, they are painted on the CPU, as by :class:`UploadingInputWriter`. The composed and the seen
    image are up to date on the CPU, on the device or on both, and are copied to the other side when it needs them.
    """

    def __init__(
        self, preprocessor: Preprocessor, target: MapBuffer, host: NativeBackend, *, shares_memory: bool | None = None
    ) -> None:
        """Prepare the CPU and the device; ``shares_memory``: see :class:`FrameOnDevice`; None: as the device does."""
        device = target.pixels.device
        if shares_memory is None:
            shares_memory = device.type == "cpu" or bool(torch.cuda.get_device_properties(device).is_integrated)
        self._there = FrameOnDevice(preprocessor, target, shares_memory=shares_memory)
        self._map: CacheMap | None = None  # None: everything is touched
        self._with_margin = False
        self._is_here = self._is_there = True
        super().__init__(preprocessor, target, host)

    @property
    def composed(self) -> Image:
        """The image of :attr:`InputWriter.composed`, copied from the device where only that has it."""
        self._fetch()
        return self._composed

    def fit(self, image: Image) -> Image:
        """Implement :meth:`InputWriter.fit`."""
        check_frame(image)
        return image

    def set_threshold(self, delta: DeltaThreshold | None) -> None:
        """Implement :meth:`InputWriter.set_threshold`."""
        super().set_threshold(delta)
        self._there.set_threshold(self._delta)

    def touch_all(self) -> None:
        """Implement :meth:`InputWriter.touch_all`."""
        self._map, self._with_margin = None, False

    def touch_pixels(self, mask: NDArray[np.uint8]) -> None:
        """Implement :meth:`InputWriter.touch_pixels`."""
        self.touch(CacheMap.of_blocks(mask == 0, self._preprocessor.size, 1, Motion.none()))

    def touch(self, cache_map: CacheMap, *, with_margin: bool = False) -> None:
        """Implement :meth:`InputWriter.touch`."""
        self._map, self._with_margin = cache_map, with_margin

    def write(self, image: Image, changed: ActiveSet, *, everything: bool) -> None:
        """Implement :meth:`InputWriter.write`."""
        if not self._is_there and not (everything and self._map is None):
            self._there.composed.copy_(torch.from_numpy(self._composed))
            self._there.seen.copy_(torch.from_numpy(self.seen))
        self._is_there, self._is_here = True, False
        self._there.write(image, self._map, with_margin=self._with_margin, everything=everything)
        changed.device_mask = self._there.changed

    def write_composed(self, changed: ActiveSet) -> None:
        """Implement :meth:`InputWriter.write_composed`."""
        if not self._is_there:
            super().write_composed(changed)
            return
        self._there.write_composed()
        self._is_here = False
        changed.fill()

    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """Implement :meth:`InputWriter.paint`."""
        self._fetch()
        self._is_there = False
        if self._map is None:
            super().touch_all()
        else:
            super().touch(self._map, with_margin=self._with_margin)
        super().paint(resized, motion, unseen, changed, everything=everything)

    def move(self, dx: int, dy: int) -> None:
        """Implement :meth:`InputWriter.move`."""
        if self._is_there:
            self._there.move(dx, dy)
        if self._is_here:
            super().move(dx, dy)

    def count(self, changed: ActiveSet) -> int:
        """Implement :meth:`InputWriter.count`."""
        if changed.device_mask is not None:
            changed.count = int(self._there.count)
        return changed.count

    def _fetch(self) -> None:
        """Copy the composed and the seen image from the device, unless the CPU has them."""
        if not self._is_here:
            torch.from_numpy(self._composed).copy_(self._there.composed)
            torch.from_numpy(self.seen).copy_(self._there.seen)
            self._is_here = True


def compares_on_device(preprocessor: Preprocessor, target: MapBuffer, host: NativeBackend) -> bool:
    """Measure whether frames are compared faster on a map's device than on the CPU, and log the times.

    Frames have the size of the model's input; larger ones, which are resized too, favour the device more.
    """
    own = MapBuffer(pixels=torch.empty_like(target.pixels), size=target.size)
    on_device, on_cpu = (
        median(_milliseconds(writer(preprocessor, own, host), target.size)[_UNCOUNTED:])
        for writer in (DeviceInputWriter, UploadingInputWriter)
    )
    faster = on_device < on_cpu
    _log.info(
        "frames are compared on the %s: %.2f ms a frame there, %.2f ms on the CPU",
        *("GPU" if faster else "CPU", on_device, on_cpu),
    )
    return faster


def _milliseconds(writer: InputWriter, size: tuple[int, int]) -> list[float]:
    """Measure the milliseconds of each of some frames, of which the same part changes every time."""
    frames = [np.zeros((*size, 3), np.uint8) for _ in range(2)]
    frames[1][middle(size, _CHANGED)] = 255
    blocks, changed = ActiveSet(grid_shape(size, _BLOCK)), ActiveSet(size)
    blocks.fill_middle(_ACTIVE)
    cache_map = CacheMap.of_blocks(blocks.mask == 0, size, _BLOCK, Motion.none())
    took = []
    for i in range(_ROUNDS):
        started = time.perf_counter_ns()
        writer.touch(cache_map)
        writer.write(frames[i % 2], changed, everything=False)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        took.append((time.perf_counter_ns() - started) / 1e6)
    return took
