# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Cameras of one model whose frames a GPU computes together: one pass of launches for all that wait at the time.

Maps of a tensor lie below one another, one camera's after the other's, so that a list of active pixels holds those of
all cameras. Each camera keeps its program, its thresholds and its sets; of one without a frame nothing is active.
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
from cacheinf_ros.graph import Graph, Model
from cacheinf_ros.graph.ir import Levels, Operator


@dataclass(slots=True, eq=False)
class Turn:
    """A frame that waits for a pass, and what became of it."""

    camera: int
    outside: Border = field(kw_only=True)
    refresh: bool = field(kw_only=True)
    is_done: bool = False
    error: Exception | None = None


class CameraBatch:
    """Has room for a number of cameras, each of which may live in a thread of its own.

    Attributes:
        graph: of all cameras.
        running: who holds it computes, or changes what is computed with.
        backend: computes what all cameras have.
        passes: how many there were so far.
    """

    def __init__(self, graph: Graph, backend: TritonBackend, cameras: int) -> None:
        """Allocate nothing yet."""
        self.graph = graph
        self.passes = 0
        self.backend = backend
        self._cameras = cameras
        self.running = threading.RLock()
        self._queue = threading.Lock()  # of what waits
        self._waiting: list[Turn] = []
        self._maps: FeatureMaps | None = None
        self._kernels: dict[str, PreparedKernel] = {}  # by the operator's output
        self._executors: dict[Hashable, TritonExecutor] = {}  # by what their plans have in common
        self._seats: WeakValueDictionary[int, CameraSeat] = WeakValueDictionary()

    def seat(self, held: object = None) -> CameraSeat | None:
        """A place for one more camera, free again when nobody holds it; None: all are taken.

        Args:
            held: by the place, as long as somebody holds that.
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
        """How many frames wait for the next pass."""
        return len(self._waiting)

    def maps(self, allocate: Callable[[int], FeatureMaps], camera: int) -> FeatureMaps:
        """The maps of a camera; allocates those of all when the first one asks."""
        with self.running:
            if self._maps is None:
                self._maps = allocate(self._cameras)
            return self._maps.of(camera)

    def kernel(self, operator: Operator, channels: int, out: Levels | torch.dtype | None) -> PreparedKernel:
        """What computes an operator of all cameras."""
        with self.running:
            if operator.output not in self._kernels:
                assert self._maps is not None
                sources = [self._maps[name] for name in operator.inputs]
                prepared = self.backend.prepare_together(operator, sources, channels, self._cameras, out)
                self._kernels[operator.output] = prepared
            return self._kernels[operator.output]

    def executor(self, executable: Executable, camera: int) -> TritonExecutor:
        """What executes a camera's steps from now on, together with those of all cameras whose steps are alike."""
        key = tuple(
            (
                type(step),
                (step.operator.output, step.delta and step.delta.criterion) if isinstance(step, Compute) else 0,
            )
            for step in executable.steps
        )
        with self.running:
            self._unseat({camera}, but=key)
            if key not in self._executors:
                assert self._maps is not None
                self._executors[key] = self.backend.executor_together(executable, self._maps, self._cameras)
            self._executors[key].seat(camera, executable)
            return self._executors[key]

    def execute(self, camera: int, *, outside: Border, refresh: bool) -> None:
        """Compute a camera's frame, together with all that wait by the time that the pass before has ended.

        Nobody is waited for: a frame that comes alone is computed at once.
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

    def run(self, turns: list[Turn]) -> None:
        """Compute frames of different cameras; those whose steps are alike in one pass."""
        self._unseat(set(range(self._cameras)) - set(self._seats))
        for executor in list(self._executors.values()):
            own = [turn for turn in turns if turn.camera in executor.seated]
            if not own:
                continue
            self.passes += 1
            try:
                executor.execute_together({turn.camera: (turn.outside, turn.refresh) for turn in own})
            except Exception as error:  # whoever waits for his frame is to hear of it
                for turn in own:
                    turn.error = error
            for turn in own:
                turn.is_done = True

    def _unseat(self, cameras: set[int], but: Hashable = None) -> None:
        """Take cameras out of all executors but one."""
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
        """The camera's maps, among those of all; ``allocate``: those of so many cameras."""
        return self.batch.maps(allocate, self.camera)

    def backend(self) -> SeatedBackend:
        """What the camera's program is prepared and executed by."""
        return SeatedBackend(self)


class SeatedBackend(TritonBackend):
    """See :class:`Backend`: of one camera, whose kernels and launches are those of all."""

    def __init__(self, seat: CameraSeat) -> None:
        backend = seat.batch.backend
        super().__init__(backend.device, floats=backend.floats)
        self._seat = seat

    def prepare(
        self, operator: Operator, sources: Sequence[MapBuffer], channels: int, out: Levels | torch.dtype | None = None
    ) -> PreparedKernel:
        """See :meth:`Backend.prepare`."""
        return self._seat.batch.kernel(operator, channels, out)

    def executor(self, executable: Executable) -> SeatedExecutor:
        """See :meth:`Backend.executor`."""
        return SeatedExecutor(self._seat, self._seat.batch.executor(executable, self._seat.camera))


class SeatedExecutor:
    """See :class:`Executor`; executes the steps of one camera, together with others'."""

    def __init__(self, seat: CameraSeat, executor: TritonExecutor) -> None:
        self._seat = seat
        self._executor = executor

    @property
    def microseconds(self) -> NDArray[np.float32]:
        """float32 [steps], of each step in the last pass, of all cameras."""
        return self._executor.microseconds

    def execute(self, *, outside: Border, refresh: bool) -> None:
        """See :meth:`Executor.execute`."""
        self._seat.batch.execute(self._seat.camera, outside=outside, refresh=refresh)

    def switch_from(self, index: int, pixels: int) -> None:
        """Nothing: no operator has a second kernel."""

    def time(self, index: int) -> float:
        """See :meth:`Executor.time`."""
        with self._seat.batch.running:
            return self._executor.time(index, self._seat.camera)


def seat_of(model: Model, backend: Backend, caching: Caching, cameras: int, *, debug_memory: bool) -> CameraSeat | None:
    """A place for an engine among those of the same model: in a batch that another one began, or in a new one.

    Args:
        model: as it is executed.
        backend: of the engine; None is returned where it has no kernels in Triton.
        cameras: for how many a new batch has room.
        debug_memory: see :class:`Program`.
    """
    if not isinstance(backend, TritonBackend):
        return None
    key = (backend.device, backend.floats, caching, cameras, debug_memory)
    for number in count():
        batch = model.shared.get(
            model.graph.operators,  # which is the same object, in whatever type maps are kept
            (CameraBatch, key, number),
            lambda: CameraBatch(in_smallest_order(model.graph, caching), backend, cameras),
        )
        if seat := batch.value.seat(batch):
            return seat
    raise AssertionError
