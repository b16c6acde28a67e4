# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Executes steps by the compiled program: one call for all steps between two that only torch can do."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import Structure, c_float, c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass

import numpy as np
import torch

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.propagation import Border, Footprint
from cacheinf_ros.engine.execution.reference import prepared_call, prepared_compute, prepared_crossing, prepared_poison
from cacheinf_ros.engine.execution.steps import (
    Call,
    Compute,
    Difference,
    FillIfAny,
    Forward,
    Grow,
    LocalRows,
    Poison,
    Receive,
    Send,
    Step,
    Union,
)  # fmt: skip
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.kernels import NativeCall, RowFunction
from cacheinf_ros.engine.kernels.library import CWindow
from cacheinf_ros.engine.partition.replicas import TensorReplicas
from cacheinf_ros.engine.truncation import POOLING, Criterion
from cacheinf_ros.graph.window import Window

_CPU = torch.device("cpu")
# ci_step_kind
_GROW_WINDOW, _GROW_REACH, _UNITE, _SUBTRACT, _FLOOD, _COMPUTE, _OWN, _PASS_ON, _NOTHING = range(9)
_CRITERIA = (Criterion.MAXIMUM, Criterion.ENERGY, Criterion.POOLED_ENERGY)  # ci_criterion
NEVER = 2**31 - 1
"""More active pixels than there can be."""


class CReach(Structure):
    """``ci_reach``."""

    _fields_ = [("taps_y", c_int32), ("taps_x", c_int32), ("index_y", c_void_p), ("index_x", c_void_p)]


class CStep(Structure):
    """``ci_step``."""

    _fields_ = [
        ("kind", c_int32), ("kernel", c_int32), ("params", c_void_p), ("first", c_void_p), ("second", c_void_p),
        ("target", c_void_p), ("out", c_void_p), ("pitch", c_int64), ("channels", c_int32), ("criterion", c_int32),
        ("threshold", c_float), ("alternative", c_int32), ("weight", c_void_p), ("alternative_params", c_void_p),
        ("alternative_from", c_int32), ("inwards", c_int32),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedKernel:
    """How an operator is computed.

    Attributes:
        call: the compiled kernel; None: only torch can.
        function: what torch does where there is no compiled kernel.
        alternative: a compiled kernel that may be faster for many pixels.
    """

    call: NativeCall | None = None
    function: RowFunction | None = None
    alternative: NativeCall | None = None


class NativeExecutor:
    """Runs the steps of a plan on the CPU.

    Attributes:
        microseconds: float32 [steps], of each step in the last run; 0 for those that torch did.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        kernels: Mapping[str, PreparedKernel],
        tensors: Tensors,
        library: ctypes.CDLL,
        threads: int,
        shares: TensorReplicas | None = None,
    ) -> None:
        """Prepare; ``kernels``: of the operators of all :class:`Compute` steps, by the operator's output."""
        _declare(library)
        self._library = library
        self._kept: list[object] = [steps, kernels, tensors]
        self._steps = (CStep * len(steps))()
        self._python: dict[int, Callable[[Border, bool], None]] = {}
        self._crossings: dict[int, tuple[Send | Receive, Callable[[Border, bool], None]]] = {}
        for i, step in enumerate(steps):
            if isinstance(step, Call):
                self._python[i] = prepared_call(step, tensors, _CPU)
            elif isinstance(step, Poison):
                self._python[i] = prepared_poison(step, tensors)
            elif isinstance(step, (Send, Receive)):
                self._crossings[i] = step, prepared_crossing(step, shares, tensors)
                self._steps[i] = CStep(kind=_NOTHING)
            elif isinstance(step, Compute) and (function := kernels[step.operator.output].function):
                self._python[i] = prepared_compute(step, function, tensors, _CPU)
            else:
                self._steps[i] = self._encoded(step, kernels, tensors.maps)
        self._breaks: dict[int, Callable[[Border, bool], None]] = {}
        self.share_anew()
        self.microseconds = np.zeros(len(steps), np.float32)
        self._program = library.ci_program_create(threads, *_scratch(steps, tensors.maps))
        weakref.finalize(self, library.ci_program_destroy, self._program)

    def run(self, *, outside: Border, refresh: bool) -> None:
        """As :meth:`ReferenceExecutor.run`."""
        times = self.microseconds.ctypes.data
        for first, last in self._spans:
            self._library.ci_program_run(self._program, self._steps, first, last, outside, refresh, times)
            if last in self._breaks:
                self._breaks[last](outside, refresh)

    def share_anew(self) -> None:
        """Take note of what is to be sent and received from now on."""
        self._breaks = self._python | {i: run for i, (step, run) in self._crossings.items() if step.crosses}
        self._spans = _spans(len(self._steps), sorted(self._breaks))

    def switch_from(self, index: int, pixels: int) -> None:
        """Use the alternative kernel of a step from so many active pixels on."""
        self._steps[index].alternative_from = pixels if self._steps[index].alternative_params else NEVER

    def time(self, index: int) -> float:
        """Microseconds of one step on the active pixels that its set holds."""
        self._library.ci_program_run(
            self._program, self._steps, index, index + 1, Border.NONE, True, self.microseconds.ctypes.data
        )
        return float(self.microseconds[index])

    def _encoded(self, step: Step, kernels: Mapping[str, PreparedKernel], maps: Mapping[str, MapBuffer]) -> CStep:
        if isinstance(step, Grow):
            return self._growth(step)
        if isinstance(step, Union):
            first, second, target = (s.address for s in (step.first, step.second, step.target))
            return CStep(kind=_UNITE, first=first, second=second, target=target)
        if isinstance(step, Difference):
            source, without, target = (s.address for s in (step.source, step.without, step.target))
            return CStep(kind=_SUBTRACT, first=source, second=without, target=target)
        if isinstance(step, FillIfAny):
            return CStep(kind=_FLOOD, first=step.source.address, target=step.target.address)
        if isinstance(step, LocalRows):
            grown, target, share = step.grown.address, step.target.address, step.share.address
            return CStep(kind=_OWN, params=share, first=grown, target=target)
        if isinstance(step, Forward):
            changed, grown, target = step.changed.address, step.grown.address, step.target.address
            return CStep(kind=_PASS_ON, params=step.share.address, first=changed, second=grown, target=target)
        assert isinstance(step, Compute)
        return self._computation(step, kernels[step.operator.output], maps[step.operator.output].rows)

    def _growth(self, step: Grow) -> CStep:
        sets = {"first": step.source.address, "target": step.target.address, "inwards": int(step.inwards)}
        if isinstance(step.through, Window):
            return CStep(kind=_GROW_WINDOW, params=self._address(CWindow.of(step.through)), **sets)
        return CStep(kind=_GROW_REACH, params=self._address(c_reach(step.through)), **sets)

    def _computation(self, step: Compute, kernel: PreparedKernel, out: torch.Tensor) -> CStep:
        call = kernel.call
        assert call is not None
        encoded = CStep(
            kind=_COMPUTE,
            kernel=int(call.kind),
            params=self._address(call.params),
            first=step.active.address,
            out=out.data_ptr(),
            pitch=out.stride(0),
            channels=out.shape[1],
            alternative_from=NEVER,
        )
        if kernel.alternative is not None:
            encoded.alternative = int(kernel.alternative.kind)
            encoded.alternative_params = self._address(kernel.alternative.params)
        truncation = step.truncation
        if truncation is None:
            return encoded
        squares = truncation.criterion is not Criterion.MAXIMUM
        encoded.target = step.changed.address
        encoded.criterion = _CRITERIA.index(truncation.criterion)
        encoded.threshold = truncation.squared_threshold if squares else truncation.threshold
        if truncation.weight is not None:
            weight = np.ascontiguousarray(truncation.weight**2 if squares else truncation.weight, np.float32)
            self._kept.append(weight)
            encoded.weight = weight.ctypes.data
        return encoded

    def _address(self, structure: Structure) -> int:
        self._kept.append(structure)
        return ctypes.addressof(structure)


def c_reach(reach: Footprint) -> CReach:
    """The same as ``ci_reach``; valid as long as the reach lives."""
    rows, columns = reach.rows, reach.columns
    assert rows.flags.c_contiguous and columns.flags.c_contiguous
    return CReach(rows.shape[1], columns.shape[1], rows.ctypes.data, columns.ctypes.data)


def _spans(count: int, breaks: list[int]) -> list[tuple[int, int]]:
    """(first, last + 1) of the steps to run before each break, and after the last one."""
    starts = [0, *(i + 1 for i in breaks)]
    return list(zip(starts, [*breaks, count], strict=True))


def _scratch(steps: Sequence[Step], maps: Mapping[str, MapBuffer]) -> tuple[int, int, int, int, int]:
    """For ``ci_program_create``: bytes of masks, rows of the largest map, channels of the widest; what pooling takes:
    pixels, with the margin, and floats of a line.
    """
    mask, rows, channels, pooled, line_floats = 64, 64, 16, 0, 0
    for step in steps:
        if isinstance(step, Grow):
            height, width = step.source.size
            line = width
            if isinstance(w := step.through, Window):
                line += 2 * max(0, w.padding[1]) + (w.kernel[1] + 1) * w.dilation[1] + w.stride[1] * (w.out_size[1] + 1)
            mask = max(mask, line + height * step.target.size[1])
        elif isinstance(step, Compute):
            rows = max(rows, step.active.pixels)
            out = maps[step.operator.output]
            channels = max(channels, out.rows.shape[1])
            if step.truncation and step.truncation.criterion is Criterion.POOLED_ENERGY:
                height, width = out.size
                pooled = max(pooled, (height + len(POOLING) - 1) * (width + len(POOLING) - 1))
                line_floats = max(line_floats, width * out.rows.shape[1])
    return mask + 64, rows, channels, pooled, line_floats


def _declare(library: ctypes.CDLL) -> None:
    library.ci_program_create.restype = c_void_p
    library.ci_program_create.argtypes = [c_void_p, c_int64, c_int, c_int, c_int64, c_int64]
    library.ci_program_destroy.restype = None
    library.ci_program_destroy.argtypes = [c_void_p]
    library.ci_program_run.restype = None
    library.ci_program_run.argtypes = [c_void_p, c_void_p, *[c_int] * 4, c_void_p]
