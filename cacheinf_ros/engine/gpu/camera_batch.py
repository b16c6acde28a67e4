# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Batches cameras of one model, so that a GPU computes all frames that are waiting in one pass of launches.

The cameras' maps of a tensor lie one below another, so that one list of active pixels covers all cameras. Each camera
keeps its own program, thresholds and sets; for a camera without a frame nothing is active.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.arena_order import in_smallest_order
from cacheinf_ros.engine.backends.backend import Backend
from cacheinf_ros.engine.backends.triton_backend import TritonBackend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.steps import Compute
from cacheinf_ros.engine.feature_maps import FeatureMaps
from cacheinf_ros.engine.gpu.triton_executor import TritonExecutor
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Graph, Model
from cacheinf_ros.graph.ir import Levels, Operator


@dataclass(slots=True, eq=False)
class Turn:
    """A frame that waits for a pass, and whether it was computed or failed."""

    camera: int
    outside: Border = field(kw_only=True)
    refresh: bool = field(kw_only=True)
    is_done: bool = False
    error: Exception | None = None


class CameraBatch:
    """A batch with room for a number of cameras, each of which may have a thread of its own.

    Attributes:
        graph: the graph that all cameras execute.
        running: the lock to hold while computing, or while changing what is computed.
        backend: prepares and executes the kernels that all cameras share.
        passes: how many passes have been computed so far.
    """

    def __init__(self, graph: Graph, backend: TritonBackend, cameras: int) -> None:
        """Create an empty batch with room for so many cameras; maps are allocated when the first camera asks."""
        self.graph = graph
        self.passes = 0
        self.backend = backend
        self._cameras = cameras
        self.running = threading.RLock()
        self._queue = threading.Lock()  # guards the waiting frames
        self._waiting: list[Turn] = []
        self._maps: FeatureMaps | None = None
        self._kernels: dict[str, PreparedKernel] = {}  # by the operator's output
        self._executors: dict[Hashable, TritonExecutor] = {}  # by the step types that the plans share
        self._seats: WeakValueDictionary[int, CameraSeat] = WeakValueDictionary()

    def seat(self, held: object = None) -> CameraSeat | None:
        """Return a seat for one more camera, which is free again when it is garbage-collected; None: all are taken.

        Args:
            held: an object that the seat keeps alive.
        """
        with self.running:
            taken = set(self._seats)
            free = next((camera for camera in range(self._cameras) if camera not in taken), None)
            if free is None:
                return None
            seat = self._seats[free] = CameraSeat(self, free, held)
            return seat

    @property
    def waiting(self) -> int:
        """The number of frames that wait for the next pass."""
        return len(self._waiting)

    def maps(self, allocate: Callable[[int], FeatureMaps], camera: int) -> FeatureMaps:
        """Return the maps of a camera, and allocate those of all cameras when the first one asks.

        Args:
            allocate: allocates the maps of so many cameras.
            camera: its number.
        """
        with self.running:
            if self._maps is None:
                self._maps = allocate(self._cameras)
            return self._maps.of(camera)

    def kernel(self, operator: Operator, channels: int, out: Levels | torch.dtype | None) -> PreparedKernel:
        """Return the kernel that computes an operator for all cameras, and prepare it when it is first asked for."""
        with self.running:
            if operator.output not in self._kernels:
                assert self._maps is not None
                sources = [self._maps[name] for name in operator.inputs]
                prepared = self.backend.prepare_together(operator, sources, channels, self._cameras, out)
                self._kernels[operator.output] = prepared
            return self._kernels[operator.output]

    def executor(self, executable: Executable, camera: int) -> TritonExecutor:
        """Return the executor that runs a camera's steps from now on, shared with all cameras whose steps are alike."""
        key = tuple(
            (
                type(step),
                (step.operator.output, step.delta and step.delta.criterion) if isinstance(step, Compute) else 0,
            )
            for step in executable.steps
        )
        with self.running:
            if key not in self._executors:
                assert self._maps is not None
                self._executors[key] = self.backend.executor_together(executable, self._maps, self._cameras)
            self._executors[key].seat(camera, executable)
            self._unseat({camera}, but=key)  # not before there is another one
            return self._executors[key]

    def execute(self, camera: int, *, outside: Border, refresh: bool) -> None:
        """Compute a camera's frame, together with all that are waiting when the previous pass has ended.

        A frame that comes alone is computed at once: it does not wait for other cameras. Raises what the pass raised.
        """
        turn = Turn(camera, outside=outside, refresh=refresh)
        with self._queue:
            self._waiting.append(turn)
        with self.running:
            if not turn.is_done:
                with self._queue:
                    turns, self._waiting = self._waiting, []
                self.run(turns)
        if turn.error is not None:
            raise turn.error
        if not turn.is_done:
            raise EngineError(f"camera {camera} has lost its place among those that are computed together")

    def run(self, turns: list[Turn]) -> None:
        """Compute frames of different cameras, in one pass for all whose steps are alike."""
        self._unseat(set(range(self._cameras)) - set(self._seats))
        for executor in list(self._executors.values()):
            own = [turn for turn in turns if turn.camera in executor.seated]
            if not own:
                continue
            self.passes += 1
            try:
                executor.execute_together({turn.camera: (turn.outside, turn.refresh) for turn in own})
            except Exception as error:  # raised again in the thread that waits for the frame
                for turn in own:
                    turn.error = error
            for turn in own:
                turn.is_done = True

    def _unseat(self, cameras: set[int], but: Hashable = None) -> None:
        """Take cameras out of all executors except the one with the key ``but``."""
        for key, executor in list(self._executors.items()):
            for camera in cameras & set(executor.seated) if key != but else ():
                executor.seat(camera, None)
            if not executor.seated:
                del self._executors[key]


class CameraSeat:
    """One camera's place in a batch."""

    def __init__(self, batch: CameraBatch, camera: int, held: object) -> None:
        self.batch = batch
        self.camera = camera
        self._held = held

    def maps(self, allocate: Callable[[int], FeatureMaps]) -> FeatureMaps:
        """Return the camera's maps, which lie among those of all; ``allocate``: allocates those of so many cameras."""
        return self.batch.maps(allocate, self.camera)

    def backend(self) -> SeatedBackend:
        """Return the backend that prepares and executes the camera's program."""
        return SeatedBackend(self)


class SeatedBackend(TritonBackend):
    """The :class:`Backend` of one camera in a batch, which shares its kernels and launches with all others."""

    def __init__(self, seat: CameraSeat) -> None:
        backend = seat.batch.backend
        super().__init__(backend.device, floats=backend.floats)
        self._seat = seat

    def prepare(
        self, operator: Operator, sources: Sequence[MapBuffer], channels: int, out: Levels | torch.dtype | None = None
    ) -> PreparedKernel:
        """Implement :meth:`Backend.prepare` by the kernels that all cameras share."""
        return self._seat.batch.kernel(operator, channels, out)

    def executor(self, executable: Executable) -> SeatedExecutor:
        """Implement :meth:`Backend.executor` by an executor that cameras with like steps share."""
        return SeatedExecutor(self._seat, self._seat.batch.executor(executable, self._seat.camera))


class SeatedExecutor:
    """The :class:`Executor` of one camera in a batch: it executes the camera's steps together with those of others."""

    def __init__(self, seat: CameraSeat, executor: TritonExecutor) -> None:
        self._seat = seat
        self._executor = executor

    @property
    def microseconds(self) -> NDArray[np.float32]:
        """The microseconds that each step took in the last timed pass, for all cameras together, float32 [steps]."""
        return self._executor.microseconds

    def execute(self, *, outside: Border, refresh: bool) -> None:
        """Implement :meth:`Executor.execute`."""
        self._seat.batch.execute(self._seat.camera, outside=outside, refresh=refresh)

    def switch_from(self, index: int, pixels: int) -> None:
        """Do nothing, as no operator has a second kernel."""

    def time(self, index: int) -> float:
        """Implement :meth:`Executor.time`."""
        with self._seat.batch.running:
            return self._executor.time(index, self._seat.camera)


def seat_of(model: Model, backend: Backend, caching: Caching, cameras: int, *, debug_memory: bool) -> CameraSeat | None:
    """Return a seat in a batch of engines of the same model: in a batch that has room, or in a new one.

    Args:
        model: the model as it is executed.
        backend: the engine's backend; None is returned where it has no Triton kernels.
        caching: which maps are kept; only engines with the same one share a batch.
        cameras: the number of cameras that a new batch has room for.
        debug_memory: see :class:`Program`.
    """
    if not isinstance(backend, TritonBackend):
        return None
    key = (backend.device, backend.floats, caching, cameras, debug_memory)
    for number in count():
        batch = model.shared.get(
            model.graph.operators,  # the same object whatever dtype the maps are kept in
            (CameraBatch, key, number),
            lambda: CameraBatch(in_smallest_order(model.graph, caching), backend, cameras),
        )
        if seat := batch.value.seat(batch):
            return seat
    raise AssertionError
