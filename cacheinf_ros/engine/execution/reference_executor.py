# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Executes steps by plain torch, on any device: the simple counterpart of the compiled executor.

Active outputs are computed from maps that hold new values where there are any and cached ones elsewhere (CacheInf
section 4.2, equation 7; the query of equation 6 is made only once, see :mod:`cacheinf_ros.engine.following`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.delta_threshold import NOTHING_CHANGED, DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.propagation import TapTable, propagate
from cacheinf_ros.engine.execution.steps import Call, Compute, Difference, FillIfAny, Poison, Propagate, Step, Union
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.execution.torch_threads import in_torch_threads
from cacheinf_ros.engine.kernels.prepared import PixelFunction
from cacheinf_ros.engine.kernels.reference_kernels import on_device
from cacheinf_ros.engine.partition.partition_steps import Forward, LocalRows, Receive, Send
from cacheinf_ros.engine.partition.transferring import prepared_transfer
from cacheinf_ros.engine.tf32 import in_full_precision
from cacheinf_ros.graph.ir import resolve

_POISON = 0xA5  # overwrites maps of levels, which cannot be NaN


class ReferenceExecutor:
    """Runs the steps of a plan by plain torch.

    Attributes:
        microseconds: float32 [steps], the time that each step took in the last run.
    """

    def __init__(self, executable: Executable, device: torch.device, threads: int | None = None) -> None:
        """Prepare the steps; ``threads``: torch's number of threads, None: its own."""
        self._device = device
        actions = [self._prepared(step, executable) for step in executable.steps]
        self._actions = actions if threads is None else [in_torch_threads(action, threads) for action in actions]
        self.microseconds = np.zeros(len(executable.steps), np.float32)

    def execute(self, *, outside: Border, refresh: bool) -> None:
        """Implement :meth:`Executor.execute`."""
        for index in range(len(self._actions)):
            self._take(index, outside, refresh)

    def switch_from(self, index: int, pixels: int) -> None:
        """Do nothing, as no operator has a second kernel."""

    def time(self, index: int) -> float:
        """Return the microseconds that one step takes on the active pixels that its set holds."""
        self._take(index, Border.NONE, refresh=True)
        return float(self.microseconds[index])

    def _take(self, index: int, outside: Border, refresh: bool) -> None:
        started = time.perf_counter_ns()
        self._actions[index](outside, refresh)
        self.microseconds[index] = (time.perf_counter_ns() - started) / 1e3

    def _prepared(self, step: Step, executable: Executable) -> Callable[[Border, bool], None]:
        kernels, tensors = executable.kernels, executable.tensors
        match step:
            case Propagate():
                return _prepared_propagation(step)
            case Union():
                return lambda *_: _fill_union(step)
            case Difference():
                return lambda *_: _fill_difference(step)
            case FillIfAny():
                return lambda outside, _: step.target.fill() if step.source.count or outside else step.target.clear()
            case Call():
                return in_full_precision(prepared_call(step, tensors, self._device), self._device)
            case Poison():
                return prepared_poison(step, tensors)
            case LocalRows():
                return lambda *_: step.replica.take_local(step.active, step.target)
            case Forward():
                return lambda *_: step.replica.forward(step.changed, step.active, step.target)
            case Send() | Receive():
                return prepared_transfer(step, executable.replicas, tensors)
        function = kernels[step.operator.output].function
        assert function is not None
        return in_full_precision(prepared_compute(step, function, tensors, self._device), self._device)


def _prepared_propagation(step: Propagate) -> Callable[[Border, bool], None]:
    table = TapTable.of(step.footprint)
    return lambda outside, _: propagate(table, step.source, step.target, Border.NONE if step.inwards else outside)


def _fill_union(step: Union) -> None:
    np.bitwise_or(step.first.mask, step.second.mask, out=step.target.mask)
    step.target.use_mask()


def _fill_difference(step: Difference) -> None:
    np.greater(step.source.mask, step.without.mask, out=step.target.mask.view(np.bool_))
    step.target.use_mask()


def prepared_compute(
    step: Compute, function: PixelFunction, tensors: Tensors, device: torch.device
) -> Callable[[Border, bool], None]:
    """Return a function that computes the active pixels of a step and writes those that are passed on."""
    out = tensors.maps[step.operator.output].pixels

    def compute(_: Border, refresh: bool) -> None:
        if not step.active.count:
            if step.delta:
                step.changed.clear()
            return
        listed = torch.from_numpy(step.active.listed).to(device, torch.int64)
        computed = function(listed)
        if step.delta is None:
            out[listed] = computed.to(out.dtype)
        else:
            _commit(computed, out, listed, step.changed, None if refresh else step.delta)

    return compute


def prepared_poison(step: Poison, tensors: Tensors) -> Callable[[Border, bool], None]:
    """Return a function that overwrites a step's maps with NaN, or with a fixed pattern where they hold levels."""
    maps = [tensors.maps[name].pixels for name in step.maps]

    def poison(*_: object) -> None:
        for pixels in maps:
            pixels.fill_(torch.nan if pixels.dtype.is_floating_point else _POISON)

    return poison


def prepared_call(step: Call, tensors: Tensors, device: torch.device) -> Callable[[Border, bool], None]:
    """Return a function that calls a global operator, unless nothing that it reads has changed."""
    operator, values, out = step.operator, tensors.values, tensors.maps.get(step.operator.output)
    arguments, keywords = (on_device(value, device) for value in (operator.arguments, operator.keywords))
    read = reader(tensors)

    def call(_: Border, refresh: bool) -> None:
        is_due = refresh or any(active.count for active in step.inputs)
        if step.replica is not None and step.replica.is_remote:
            if is_due:
                tensors.called.discard(operator.output)
                step.changed.fill()
            else:
                step.changed.clear()
            return
        is_known = operator.output in tensors.called  # else the stored output may be older than what its readers saw
        if is_known and not is_due:
            step.changed.clear()
            return
        tensors.called.add(operator.output)
        result = operator.call(*resolve(arguments, read), **resolve(keywords, read))
        if out is None:
            values[operator.output] = result
            step.changed.fill()
            return
        shape = tensors.specs[operator.output].shape
        computed = result.reshape(1, shape[1], *out.size)[0].flatten(1).t()
        everywhere = torch.arange(len(computed), device=device)
        _commit(computed, out.pixels, everywhere, step.changed, NOTHING_CHANGED if is_known and not refresh else None)

    return call


def reader(tensors: Tensors) -> Callable[[str], Any]:
    """Return a function that looks up tensors for a global operator, as float32 where a map is kept in 16 bits."""

    def read(name: str) -> Any:
        value = tensors.values[name]
        return value.float() if name in tensors.maps and value.is_floating_point() else value

    return read


def _commit(
    computed: torch.Tensor, out: torch.Tensor, listed: torch.Tensor, changed: ActiveSet, delta: DeltaThreshold | None
) -> None:
    """Write the computed pixels that changed enough, all without a threshold, and fill ``changed`` with them.

    Changes are measured after rounding to the map's dtype.
    """
    computed = computed.to(out.dtype)
    if delta is not None:
        passes = delta.passes(_host(computed), _host(out[listed]), listed.cpu().numpy(), changed.size)
        keep = torch.from_numpy(passes).to(listed.device)
        listed, computed = listed[keep], computed[keep]
    out[listed] = computed
    changed.mask.fill(0)
    changed.mask.reshape(-1)[listed.cpu().numpy()] = 1
    changed.use_mask()


def _host(values: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = values.float().cpu().numpy()
    return array
