# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Executes steps by the compiled program, in one call for all consecutive steps that need no Python."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import Structure

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.delta_threshold import POOLING, Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.execution.reference_executor import prepared_call, prepared_compute, prepared_poison
from cacheinf_ros.engine.execution.steps import Call, Compute, Difference, FillIfAny, Poison, Propagate, Step, Union
from cacheinf_ros.engine.execution.strip_encoding import in_strips
from cacheinf_ros.engine.execution.torch_threads import in_torch_threads, threads_for
from cacheinf_ros.engine.kernels.abi import NEVER, ChangeKind, CStep, CTapTable, CWindow, StepKind, failure
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.engine.partition.partition_steps import Forward, LocalRows, Receive, Send
from cacheinf_ros.engine.partition.transferring import prepared_transfer
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Window
from cacheinf_ros.graph.ir import Levels

_CPU = torch.device("cpu")
_CHANGE_KINDS = {
    Criterion.MAXIMUM: ChangeKind.MAXIMUM_CHANGE,
    Criterion.ENERGY: ChangeKind.SUM_OF_SQUARES,
    Criterion.POOLED_ENERGY: ChangeKind.POOLED_SQUARES,
}


class NativeExecutor:
    """Runs the steps of a plan on the CPU."""

    def __init__(self, executable: Executable, library: ctypes.CDLL, threads: int, torch_threads: int) -> None:
        """Prepare the steps.

        Args:
            executable: what is executed.
            library: the compiled kernels.
            threads: address of the ``ci_threads``, which must live as long as this object is used.
            torch_threads: number of threads for steps that torch computes.

        Raises:
            EngineError: there is not enough memory.
        """
        steps, kernels, tensors = executable.steps, executable.kernels, executable.tensors
        self._library = library
        self._replicas = executable.replicas
        self._kept: list[object] = [executable]
        self._python: dict[int, Callable[[Border, bool], None]] = {}
        self._transfers: dict[int, tuple[Send | Receive, Callable[[Border, bool], None]]] = {}
        encoded: list[CStep] = []
        for i, step in enumerate(steps):
            if isinstance(step, Call):
                number = threads_for(step.operator, tensors.specs, torch_threads)
                self._python[i] = in_torch_threads(prepared_call(step, tensors, _CPU), number)
            elif isinstance(step, Poison):
                self._python[i] = prepared_poison(step, tensors)
            elif isinstance(step, (Send, Receive)):
                self._transfers[i] = step, prepared_transfer(step, executable.replicas, tensors)
            elif isinstance(step, Compute) and (function := kernels[step.operator.output].function):
                number = threads_for(step.operator, tensors.specs, torch_threads)
                self._python[i] = in_torch_threads(prepared_compute(step, function, tensors, _CPU), number)
            is_compiled = i not in self._python and i not in self._transfers
            encoded.append(self._encoded(step, kernels, tensors.maps) if is_compiled else CStep(kind=StepKind.NOTHING))
        order, kept = in_strips(executable, encoded)
        self._kept += kept
        self._steps = (CStep * len(order))(*(step for _, step in order))
        self._owners = np.array([owner for owner, _ in order], np.intp)  # the plan's step of each compiled one
        self._times = np.zeros(len(order), np.float32)
        self._places: list[list[int]] = [[] for _ in steps]  # the compiled steps of each of the plan's steps
        for place, (owner, _) in enumerate(order):
            self._places[owner].append(place)
        self._find_breaks()
        self._program = library.ci_program_create(threads, *_scratch(steps, tensors.maps))
        if self._program is None:
            raise EngineError("there is not enough memory for the engine: take a smaller model or input")
        # not at the interpreter's exit: a daemon thread may be running the program then
        weakref.finalize(self, library.ci_program_destroy, self._program).atexit = False

    @property
    def microseconds(self) -> NDArray[np.float32]:
        """The microseconds that each step of the plan took in the last run, float32 [steps]; 0 for steps in Python."""
        return np.bincount(self._owners, self._times, minlength=len(self._places)).astype(np.float32)

    def execute(self, *, outside: Border, refresh: bool) -> None:
        """Implement :meth:`Executor.execute`."""
        if self._replicas is not None and self._replicas.partition is not self._partition:
            self._find_breaks()
        times = self._times.ctypes.data
        for first, last in self._spans:
            if status := self._library.ci_program_run(self._program, self._steps, first, last, outside, refresh, times):
                raise failure("ci_program_run", status)
            if last in self._breaks:
                self._breaks[last](outside, refresh)

    def _find_breaks(self) -> None:
        """Find out which steps are done in Python, including those that send or receive in the current partition."""
        self._partition = None if self._replicas is None else self._replicas.partition
        needed = {i: run for i, (step, run) in self._transfers.items() if step.is_needed}
        self._breaks = {self._places[i][0]: run for i, run in {**self._python, **needed}.items()}
        self._spans = _spans(len(self._steps), sorted(self._breaks))

    def switch_from(self, index: int, pixels: int) -> None:
        """Use a step's alternative kernel, if it has one, when at least this many pixels are active."""
        for place in self._places[index]:
            step = self._steps[place]
            step.alternative_from = pixels if step.alternative_params else NEVER

    def time(self, index: int) -> float:
        """Return the microseconds that one step takes on the active pixels that its set holds."""
        for place in self._places[index]:
            status = self._library.ci_program_run(
                self._program, self._steps, place, place + 1, Border.NONE, True, self._times.ctypes.data
            )
            if status:
                raise failure("ci_program_run", status)
        return float(self._times[self._places[index]].sum())

    def _encoded(self, step: Step, kernels: Mapping[str, PreparedKernel], maps: Mapping[str, MapBuffer]) -> CStep:
        match step:
            case Propagate():
                return self._propagation(step)
            case Union():
                first, second, target = (s.address for s in (step.first, step.second, step.target))
                return CStep(kind=StepKind.UNION, first=first, second=second, target=target)
            case Difference():
                source, without, target = (s.address for s in (step.source, step.without, step.target))
                return CStep(kind=StepKind.DIFFERENCE, first=source, second=without, target=target)
            case FillIfAny():
                return CStep(kind=StepKind.FILL_IF_ANY, first=step.source.address, target=step.target.address)
            case LocalRows():
                active, target, replica = step.active.address, step.target.address, step.replica.address
                return CStep(kind=StepKind.LOCAL_ROWS, params=replica, first=active, target=target)
            case Forward():
                changed, active, target = step.changed.address, step.active.address, step.target.address
                params = step.replica.address
                return CStep(kind=StepKind.FORWARD, params=params, first=changed, second=active, target=target)
        assert isinstance(step, Compute)
        return self._computation(step, kernels[step.operator.output], maps[step.operator.output])

    def _propagation(self, step: Propagate) -> CStep:
        sets = {"first": step.source.address, "target": step.target.address, "inwards": int(step.inwards)}
        if isinstance(step.footprint, Window):
            window = CWindow.of(step.footprint)
            return CStep(kind=StepKind.PROPAGATE_WINDOW, params=self._address(window), **sets)
        table = c_tap_table(step.footprint)
        return CStep(kind=StepKind.PROPAGATE_TAPS, params=self._address(table), **sets)

    def _computation(self, step: Compute, kernel: PreparedKernel, target: MapBuffer) -> CStep:
        call, out, levels = kernel.call, target.pixels, target.levels
        assert call is not None
        encoded = CStep(
            kind=StepKind.COMPUTE,
            kernel=int(call.kind),
            params=self._address(call.params),
            first=step.active.address,
            out=out.data_ptr(),
            pitch=out.stride(0),
            channels=out.shape[1],
            alternative_from=NEVER,
            value_bytes=out.element_size(),
        )
        if kernel.alternative is not None:
            encoded.alternative = int(kernel.alternative.kind)
            encoded.alternative_params = self._address(kernel.alternative.params)
        delta = step.delta
        if delta is None:
            return encoded
        squares = delta.criterion is not Criterion.MAXIMUM
        encoded.target = step.changed.address
        encoded.criterion = _CHANGE_KINDS[delta.criterion]
        encoded.threshold = delta.squared_threshold if squares else delta.threshold
        weight = _of_levels(delta, levels, out.shape[1])
        if weight is not None:
            weight = np.ascontiguousarray(weight**2 if squares else weight, np.float32)
            self._kept.append(weight)
            encoded.weight = weight.ctypes.data
        return encoded

    def _address(self, structure: Structure) -> int:
        self._kept.append(structure)
        return ctypes.addressof(structure)


def _of_levels(delta: DeltaThreshold, levels: Levels | None, channels: int) -> NDArray[np.float32] | None:
    """Return the channel weights of a criterion, scaled where the map holds levels, float32 [channels] or None."""
    if levels is None or (delta.weight is None and delta.threshold == 0):
        return delta.weight
    return np.full(channels, levels.scale, np.float32) * (1 if delta.weight is None else delta.weight)


def c_tap_table(table: TapTable) -> CTapTable:
    """Return the C structure for a table, valid as long as the table lives.

    Raises:
        EngineError: the table is not contiguous.
    """
    rows, columns = table.rows, table.columns
    if not (rows.flags.c_contiguous and columns.flags.c_contiguous):  # compiled code does not check it
        raise EngineError("internal error: a table of taps does not lie in one piece")
    return CTapTable(rows.shape[1], columns.shape[1], rows.ctypes.data, columns.ctypes.data)


def _spans(count: int, breaks: list[int]) -> list[tuple[int, int]]:
    """Return (first, last + 1) of the steps to run before each break, and of those after the last break."""
    starts = [0, *(i + 1 for i in breaks)]
    return list(zip(starts, [*breaks, count], strict=True))


def _scratch(steps: Sequence[Step], maps: Mapping[str, MapBuffer]) -> tuple[int, int, int, int, int]:
    """Return the sizes of scratch memory for ``ci_program_create``.

    They are: bytes of a mask, pixels of the largest map, channels of the widest map, and for pooled changes the pixels
    of the largest map including its margin and the floats of its longest line.
    """
    mask, pixels, channels, pooled, line_floats = 64, 64, 16, 0, 0
    for step in steps:
        if isinstance(step, Propagate):
            height, width = step.source.size
            line = width
            if isinstance(w := step.footprint, Window):
                line += 2 * max(0, w.padding[1]) + (w.kernel[1] + 1) * w.dilation[1] + w.stride[1] * (w.out_size[1] + 1)
            mask = max(mask, line + height * step.target.size[1])
        elif isinstance(step, Compute):
            pixels = max(pixels, step.active.pixels)
            out = maps[step.operator.output]
            channels = max(channels, out.pixels.shape[1])
            if step.delta and step.delta.criterion is Criterion.POOLED_ENERGY:
                height, width = out.size
                pooled = max(pooled, (height + len(POOLING) - 1) * (width + len(POOLING) - 1))
                line_floats = max(line_floats, width * out.pixels.shape[1])
    return mask + 64, pixels, channels, pooled, line_floats
