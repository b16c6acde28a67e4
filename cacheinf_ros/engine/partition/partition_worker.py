# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server's part of frames that two machines compute: see :mod:`.sharing`."""

from __future__ import annotations

from collections.abc import Collection

import cv2
import numpy as np
import torch

from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.compile import compile_program
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.lifetimes import map_bytes
from cacheinf_ros.engine.partition.exchange import Exchange, Patch
from cacheinf_ros.engine.partition.partition import Rows, Side
from cacheinf_ros.engine.partition.sharing import FrameStart, Pixels
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.quantisation import executed_model
from cacheinf_ros.errors import EngineError, LinkError
from cacheinf_ros.geometry import NO_SHIFT
from cacheinf_ros.graph import Model


class _Nobody:
    """An :class:`Exchange` without another machine: it drops what is sent, and nothing can be received."""

    def send(self, tensor: str, patch: Patch) -> None:
        pass

    def receive(self, tensor: str, rows: Rows) -> Patch:
        raise LinkError(f"nobody computes {tensor}")


class PartitionWorker:
    """Computes the server's rows of one robot's frames. Not thread-safe.

    Attributes:
        program: the compiled model.
        cost: how long the model's operators take on this machine.
        space: the possible partitions of the model.
        is_on_cpu: whether it computes on the CPU, and not on a GPU.
    """

    def __init__(self, model: Model, config: EngineConfig, dropped: Collection[str] = ()) -> None:
        """Compile a model.

        Args:
            model: the model.
            config: the engine's configuration on this machine.
            dropped: the maps that the robot does not keep, so that this machine does not keep them either.

        Raises:
            EngineError: the model has no such maps, the kept ones exceed this machine's cache budget, or there are no
                scales for precision int8.
        """
        executed, backend = executed_model(model, config)
        self.is_on_cpu = backend.device.type == "cpu"
        preprocessor = Preprocessor(model.card)
        caching = _caching(executed, config, dropped)
        self.program, self.cost = compile_program(executed, config, backend, caching, Side.SERVER)
        self.program.profile.switch_kernels({name: curve.switch_from for name, curve in self.cost.curves.items()})
        assert self.program.replicas is not None
        self._replicas = self.program.replicas
        self.space = self._replicas.space
        self._writer = backend.input(preprocessor, self.program.input, on_host=True)
        self._image = np.zeros((*preprocessor.size, 3), np.uint8)
        self._touched = np.zeros(preprocessor.size, np.uint8)

    def warm_up(self) -> None:
        """Compute a black frame, so that a robot's first frame takes no longer than those after it."""
        mask, image = np.ones(self._touched.shape, np.uint8), np.zeros_like(self._image)
        start = FrameStart(
            partition=self.space.everything_at(Side.SERVER), refresh=True, outside=Border.NONE, shift=NO_SHIFT,
            pixels=Pixels(rows=(0, len(image)), mask=mask, image=image),
        )  # fmt: skip
        self.compute_part(start, _Nobody())
        self.forget()

    def forget(self) -> None:
        """Start anew, as if neither this machine nor the robot had any values."""
        self._replicas.forget_remote()
        self._replicas.distrust_all()

    @torch.inference_mode()
    def compute_part(self, start: FrameStart, exchange: Exchange) -> None:
        """Compute this machine's part of a frame.

        Raises:
            EngineError: the partition cannot be executed.
            LinkError: the robot's part did not come; call :meth:`forget` then.
        """
        with self.program.awake():
            # After a change of partition, this machine may not know which of the robot's former rows have changed. What
            # it held there is no measure of what their readers saw, so nothing is held back. From the next frame of the
            # same partition on, it is one.
            refresh = start.refresh or start.partition != self._replicas.partition
            self._replicas.use(start.partition)
            if start.shift != NO_SHIFT:
                self._writer.move(*start.shift)
                self.program.shift(*start.shift)
            self._write(start.pixels)
            self._replicas.exchange, self._replicas.received = exchange, []
            try:
                self.program.execute(outside=start.outside, refresh=refresh)
            finally:
                self._replicas.exchange = None

    def _write(self, pixels: Pixels) -> None:
        first, last = pixels.rows
        if (first, last) != self._replicas[self.program.layout.graph.input].received and last > first:
            raise EngineError(f"pixels of rows {first} to {last} are not what the partition makes necessary")
        self._touched.fill(0)
        self._touched[first:last] = pixels.mask
        cv2.copyTo(pixels.image, pixels.mask, self._image[first:last])
        self._writer.touch_pixels(self._touched)
        self._writer.write(self._image, self.program.changed_input, everything=True)


def _caching(model: Model, config: EngineConfig, dropped: Collection[str]) -> Caching:
    """Return the robot's choice of kept maps, as this machine keeps the same ones.

    Raises:
        EngineError: the model has no such maps, or this machine has no room for those that are kept (the third
            constraint of equation 9, at the server).
    """
    layout = lay_out(model.graph)
    names = droppable(layout)
    if not set(dropped) <= set(names):
        raise EngineError(
            "the robot leaves out feature maps that this model has not, or that must be kept: start both with the same "
            "precision, and for int8 with the same scales"
        )
    kept = sum(map_bytes(layout, name) for name in names if name not in dropped)
    if 0 <= config.cache_budget_mb * 1e6 < kept:
        raise EngineError(
            f"the robot keeps {kept / 1e6:.0f} MB of feature maps, and cache.budget_mb of the server is "
            f"{config.cache_budget_mb:g}: raise it, or lower the robot's"
        )
    return Caching(dropped=frozenset(dropped))
