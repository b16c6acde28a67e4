# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Executes steps by plain torch, on any device: the trivial sibling of the compiled executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.propagation import Border, Footprint, propagate
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
from cacheinf_ros.engine.kernels import RowFunction
from cacheinf_ros.engine.partition.replicas import TensorReplicas, prepared_receive, prepared_send
from cacheinf_ros.engine.truncation import NOTHING_CHANGED, Truncation
from cacheinf_ros.graph.ir import resolve
from cacheinf_ros.graph.window import Window


class ReferenceExecutor:
    """Runs the steps of a plan.

    Attributes:
        microseconds: float32 [steps], of each step in the last run.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        functions: Mapping[str, RowFunction],
        tensors: Tensors,
        device: torch.device,
        shares: TensorReplicas | None = None,
    ) -> None:
        """Prepare; ``functions``: of the operators of all :class:`Compute` steps, by the operator's output."""
        self._device = device
        self._shares = shares
        self._runs = [self._prepared(step, functions, tensors) for step in steps]
        self.microseconds = np.zeros(len(steps), np.float32)

    def run(self, *, outside: Border, refresh: bool) -> None:
        """Run all steps.

        Args:
            outside: beside which of an image's sides its padding counts as changed.
            refresh: every computed pixel is passed on, however small its change.
        """
        for i, run in enumerate(self._runs):
            started = time.perf_counter_ns()
            run(outside, refresh)
            self.microseconds[i] = (time.perf_counter_ns() - started) / 1e3

    def _prepared(
        self,
        step: Step,
        functions: Mapping[str, RowFunction],
        tensors: Tensors,
    ) -> Callable[[Border, bool], None]:
        match step:
            case Grow():
                return _prepared_growth(step)
            case Union():
                return lambda *_: _unite(step)
            case Difference():
                return lambda *_: _subtract(step)
            case FillIfAny():
                return lambda outside, _: step.target.fill() if step.source.count or outside else step.target.clear()
            case Call():
                return prepared_call(step, tensors, self._device)
            case Poison():
                return prepared_poison(step, tensors)
            case LocalRows():
                return lambda *_: step.share.take_own(step.grown, step.target)
            case Forward():
                return lambda *_: step.share.pass_on(step.changed, step.grown, step.target)
            case Send() | Receive():
                return prepared_crossing(step, self._shares, tensors)
        return prepared_compute(step, functions[step.operator.output], tensors, self._device)


def _prepared_growth(step: Grow) -> Callable[[Border, bool], None]:
    reach = Footprint.of_window(step.through) if isinstance(step.through, Window) else step.through
    return lambda outside, _: propagate(reach, step.source, step.target, Border.NONE if step.inwards else outside)


def _unite(step: Union) -> None:
    np.bitwise_or(step.first.mask, step.second.mask, out=step.target.mask)
    step.target.use_mask()


def _subtract(step: Difference) -> None:
    np.greater(step.source.mask, step.without.mask, out=step.target.mask.view(np.bool_))
    step.target.use_mask()


def prepared_compute(
    step: Compute, function: RowFunction, tensors: Tensors, device: torch.device
) -> Callable[[Border, bool], None]:
    """Computes the active pixels and writes those that are passed on."""
    out = tensors.maps[step.operator.output].rows

    def run(_: Border, refresh: bool) -> None:
        if not step.active.count:
            if step.truncation:
                step.changed.clear()
            return
        rows = torch.from_numpy(step.active.rows).to(device, torch.int64)
        computed = function(rows)
        if step.truncation is None:
            out[rows] = computed
        else:
            _commit(computed, out, rows, step.changed, None if refresh else step.truncation)

    return run


def prepared_poison(step: Poison, tensors: Tensors) -> Callable[[Border, bool], None]:
    """Overwrites maps."""
    maps = [tensors.maps[name].rows for name in step.maps]

    def run(*_: object) -> None:
        for rows in maps:
            rows.fill_(torch.nan)

    return run


def prepared_call(step: Call, tensors: Tensors, device: torch.device) -> Callable[[Border, bool], None]:
    """Calls a global operator, unless nothing that it reads has changed."""
    operator, values, out, share = step.operator, tensors.values, tensors.maps.get(step.operator.output), step.share
    arguments, keywords = (_moved_to(value, device) for value in (operator.arguments, operator.keywords))

    def run(_: Border, refresh: bool) -> None:
        if share is not None and share.is_elsewhere:
            if refresh or any(active.count for active in step.inputs):
                tensors.called.discard(operator.output)
                step.changed.fill()
            else:
                step.changed.clear()
            return
        known = operator.output in tensors.called
        if known and not refresh and not any(active.count for active in step.inputs):
            step.changed.clear()
            return
        tensors.called.add(operator.output)
        result = operator.call(*resolve(arguments, values.__getitem__), **resolve(keywords, values.__getitem__))
        if out is None:
            values[operator.output] = result
            step.changed.fill()
            return
        shape = tensors.specs[operator.output].shape
        computed = result.reshape(1, shape[1], *out.size)[0].flatten(1).t()
        rows = torch.arange(len(computed), device=device)
        _commit(computed, out.rows, rows, step.changed, None if refresh else NOTHING_CHANGED)

    return run


def prepared_crossing(
    step: Send | Receive, shares: TensorReplicas | None, tensors: Tensors
) -> Callable[[Border, bool], None]:
    """Sends, or receives, if anything crosses."""
    assert shares is not None
    if isinstance(step, Send):
        run = prepared_send(step.share, shares, tensors)
    else:
        run = prepared_receive(step.share, step.changed, shares, tensors)
    return lambda *_: run() if step.crosses else None


def _commit(
    computed: torch.Tensor, out: torch.Tensor, rows: torch.Tensor, changed: ActiveSet, truncation: Truncation | None
) -> None:
    """Write the rows that changed enough, all without a truncation; say which."""
    if truncation is not None:
        passes = truncation.passes(_host(computed), _host(out[rows]), rows.cpu().numpy(), changed.size)
        keep = torch.from_numpy(passes).to(rows.device)
        rows, computed = rows[keep], computed[keep]
    out[rows] = computed
    changed.mask.fill(0)
    changed.mask.reshape(-1)[rows.cpu().numpy()] = 1
    changed.use_mask()


def _host(values: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = values.cpu().numpy()
    return array


def _moved_to(arguments: Any, device: torch.device) -> Any:
    if isinstance(arguments, torch.Tensor):
        return arguments.to(device)
    if isinstance(arguments, dict):
        return {key: _moved_to(value, device) for key, value in arguments.items()}
    if isinstance(arguments, (tuple, list)):
        return type(arguments)(_moved_to(item, device) for item in arguments)
    return arguments
