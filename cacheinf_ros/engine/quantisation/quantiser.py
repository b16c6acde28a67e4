# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds scales for a model from a user's own frames, by the errors that they cause at its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.engine_config import Precision
from cacheinf_ros.engine.kernels.int8_kernels import rounded_weights, to_values
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.quantisation.int8_graph import int8_graph
from cacheinf_ros.engine.quantisation.observed import DenseRuns, Observed, observe
from cacheinf_ros.engine.quantisation.ranges import RangeMethod, levels_for
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model, Scales
from cacheinf_ros.graph.ir import Conv, Int8Conv

Image = NDArray[np.uint8]
_JUDGED = 8  # frames on which alternatives are compared
_SUSPECTS = 6  # convolutions that are tried in float32
_WORTH = 0.9  # a convolution stays in float32 if that leaves less than this share of the error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantised:
    """Scales and the errors that they cause, each an RMS error over the tensor's standard deviation (NRMSE).

    Attributes:
        scales: the scales.
        method: how the ranges of values were chosen.
        error: the error at the outputs, as the RMS over all of them.
        output_errors: the error by output, under the name that the user knows.
        tensor_errors: by tensor with levels, in the order of the graph, its error including that of its inputs.
        tried: the error at the outputs for each alternative that was tried.
    """

    scales: Scales
    method: RangeMethod
    error: float
    output_errors: Mapping[str, float]
    tensor_errors: Mapping[str, float]
    tried: Mapping[str, float]


@torch.inference_mode()
def quantise(
    model: Model, images: Sequence[Image], threads: int, between: Callable[[str], None] = lambda what: None
) -> Quantised:
    """Find the scales of a model.

    Args:
        model: the model.
        images: uint8 [height, width, 3], BGR. They should show what matters, as values beyond theirs are clipped.
        threads: the number of CPU threads to compute with.
        between: called before each part of the work with its description.

    Raises:
        EngineError: there are no frames, or this machine has no kernels for int8.
    """
    if not images:
        raise EngineError("quantising needs frames, and there are none")
    between(f"observing {len(images)} frames in float32")
    runs = DenseRuns(model, model.graph, choose_backend("cpu", threads))
    observed = observe(runs, images)
    table = Preprocessor(model.card).table
    observed[model.graph.input].low, observed[model.graph.input].high = float(table.min()), float(table.max())
    judging = _Judging(model, [images[index] for index in spread(len(images), _JUDGED)], runs, threads)
    found: dict[RangeMethod, Scales] = {}
    for method in RangeMethod:
        between(f"ranges by {method.value}")
        found[method] = Scales(levels=levels_for(model.graph, observed, method))
        judging.judge(method.value, found[method])
    method = min(found, key=lambda each: judging.tried[each.value])
    scales = found[method]
    between("correcting biases")
    corrected = replace(scales, biases=_corrected_biases(model, scales, observed))
    if judging.judge("biases corrected", corrected) < judging.tried[method.value]:
        scales = corrected
    between("trying convolutions in float32")
    scales = _with_floats(judging, scales)
    errors = judging.errors(scales)
    return Quantised(
        scales=scales,
        method=method,
        error=_together(list(errors.outputs.values())),
        output_errors=errors.outputs,
        tensor_errors=errors.tensors,
        tried=judging.tried,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errors:
    outputs: dict[str, float]
    tensors: dict[str, float]


def spread(length: int, count: int) -> list[int]:
    """Return the indices of so many frames, or of all if there are fewer, from all over a recording of a length."""
    count = min(count, length)
    return [number * length // count for number in range(count)]


class _Judging:
    """Compares scales by their errors at the outputs on a few frames.

    Attributes:
        tried: the error at the outputs for each alternative that was tried.
    """

    def __init__(self, model: Model, images: Sequence[Image], exact: DenseRuns, threads: int) -> None:
        self.tried: dict[str, float] = {}
        self._model = model
        self._images = images
        self._exact = exact
        self._backend = choose_backend("cpu", threads, Precision.INT8)
        if not self._backend.takes_levels:
            raise EngineError("int8 needs the compiled kernels, which were not built: make build, with a C++ compiler")
        self._outputs = [{name: value.clone() for name, value in outputs.items()} for outputs in exact.run(images)]

    @property
    def convolutions(self) -> list[Conv]:
        """The model's convolutions, in the order of execution."""
        return [operator for operator in self._model.graph.operators if isinstance(operator, Conv)]

    def judge(self, what: str, scales: Scales) -> float:
        """Return the error that scales cause at the outputs, and record it in :attr:`tried` under ``what``."""
        runs = self._runs(scales)
        sums = _ErrorSums()
        for outputs, exact in zip(runs.run(self._images), self._outputs, strict=True):
            sums.add(outputs, exact)
        self.tried[what] = _together(list(sums.errors().values()))
        return self.tried[what]

    def errors(self, scales: Scales) -> _Errors:
        """Return the errors that scales cause at each output, and at each tensor with levels."""
        runs = self._runs(scales)
        names = [o.output for o in self._model.graph.operators if o.output in runs.program.maps]
        names = [name for name in names if runs.graph.tensors[name].levels and name in self._exact.program.maps]
        outputs, tensors = _ErrorSums(), _ErrorSums()
        for ours, exact in zip(runs.run(self._images), self._exact.run(self._images), strict=True):
            outputs.add(ours, exact)
            maps, theirs = runs.program.maps, self._exact.program.maps
            tensors.add(
                {n: to_values(maps[n].pixels, maps[n].levels) for n in names}, {n: theirs[n].pixels for n in names}
            )
        return _Errors(outputs=outputs.errors(), tensors=tensors.errors())

    def _runs(self, scales: Scales) -> DenseRuns:
        return DenseRuns(self._model, int8_graph(self._model.graph, scales), self._backend)


class _ErrorSums:
    """Sums of squared errors and of the exact values' moments, by tensor."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    def add(self, ours: Mapping[str, torch.Tensor], exact: Mapping[str, torch.Tensor]) -> None:
        for name, value in exact.items():
            value = value.double()  # of a type that has no differences, maybe
            error = (ours[name].double() - value).square().mean()
            parts = (float(error), float(value.square().mean()), float(value.mean()), 1.0)
            sums = self._sums.get(name, [0.0] * len(parts))
            self._sums[name] = [total + part for total, part in zip(sums, parts, strict=True)]

    def errors(self) -> dict[str, float]:
        """Return the NRMSE by tensor."""
        found = {}
        for name, (error, squares, mean, count) in self._sums.items():
            variance = max(squares / count - (mean / count) ** 2, 1e-30)
            found[name] = (error / count / variance) ** 0.5
        return found


def _corrected_biases(model: Model, scales: Scales, observed: Mapping[str, Observed]) -> dict[str, torch.Tensor]:
    """Return biases that make up for what rounding the weights does to the mean of each output channel.

    They are float32 [channels], by convolution's output.
    """
    found = {}
    for conv in int8_graph(model.graph, scales).operators:
        if not isinstance(conv, Int8Conv):
            continue
        name = conv.inputs[0].partition("@")[0]
        lost = conv.weight.double() - rounded_weights(conv).double() * conv.weight_scale.double()[:, None, None, None]
        inputs = observed[name].mean.view(conv.groups, 1, -1)  # [groups, 1, inputs per group]
        shift = (lost.sum((2, 3)).unflatten(0, (conv.groups, -1)) * inputs).sum(2).flatten()
        if bool(torch.isfinite(shift).all()):
            found[conv.output] = (conv.bias.double() + shift).float()
    return found


def _with_floats(judging: _Judging, scales: Scales) -> Scales:
    """Leave convolutions in float32 where that lowers the outputs' error much, trying those that add the most error."""
    errors = judging.errors(scales)
    error = _together(list(errors.outputs.values()))
    growth: dict[str, float] = {}
    for operator in judging.convolutions:
        before = max((errors.tensors.get(name, 0.0) for name in operator.inputs), default=0.0)
        if operator.output in errors.tensors:
            growth[operator.output] = errors.tensors[operator.output] ** 2 - before**2
    for output in sorted(growth, key=lambda name: -growth[name])[:_SUSPECTS]:
        tried = replace(scales, floats=scales.floats | {output})
        left = judging.judge(f"float32: {output}", tried)
        if left < _WORTH * error:
            scales, error = tried, left
    return scales


def _together(errors: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
