# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Builds graphs with some of their tensors in 8-bit levels, and with conversions where floats meet levels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

import torch

from cacheinf_ros.graph import Graph, Scales, renamed
from cacheinf_ros.graph.ir import (
    Concat,
    Conv,
    Convert,
    Elementwise,
    GlobalMean,
    Int8Conv,
    Levels,
    Operator,
    PixelShuffle,
    Pool,
    Resample,
    Select,
    TensorSpec,
    free_name,
)

_MANY_WEIGHTS = 1 << 16  # with fewer, a convolution on a single pixel gains too little to be worth its error
_LARGEST = 127  # the largest rounded weight
_MOST_STEPS = 2.0**24  # of a bias; weights that are negligible beside it are rounded to 0
_MOST_GIVEN_STEPS = 2.0**29  # where a file says how its weights are rounded; kernels add in 32 bits


def int8_graph(graph: Graph, scales: Scales) -> Graph:
    """Build the graph that computes the same in levels, except for rounding.

    Outputs are floats, and tensors keep their names. Operators without a kernel on levels, and those that ``scales``
    leaves in floats, read and write floats.
    """
    return _Building(graph, scales).graph()


def keeps_values(operator: Operator) -> bool:
    """Tell whether every value of the output is a value of an input, so that all of them must have the same levels."""
    match operator:
        case Select() | PixelShuffle() | Concat():
            return True
        case Pool():
            return not operator.average
        case Resample():
            return all(
                taps.weight.shape[1] == 1 and bool((taps.weight == 1).all())
                for taps in (operator.rows, operator.columns)
            )
    return False


class _Building:
    """Builds a graph operator by operator, and adds conversions where they are first needed."""

    def __init__(self, graph: Graph, scales: Scales) -> None:
        self._graph = graph
        self._scales = scales
        self._levels = _needed(graph, scales)
        self._tensors: dict[str, TensorSpec] = {}
        self._operators: list[Operator] = []
        self._forms: dict[tuple[str, Levels | None], str] = {}
        self._first: dict[str, Levels | None] = {}  # how each tensor is written

    def graph(self) -> Graph:
        self._declare(self._graph.input, self._levels.get(self._graph.input))
        for operator in self._graph.operators:
            self._add(operator)
        outputs = tuple((name, self._as(tensor, None)) for name, tensor in self._graph.outputs)
        return Graph(input=self._graph.input, outputs=outputs, operators=tuple(self._operators), tensors=self._tensors)

    def _add(self, operator: Operator) -> None:
        if not _computes_levels(operator, self._levels, self._scales.floats):
            names = {name: self._as(name, None) for name in operator.inputs if self._first[name]}
            self._operators.append(renamed(operator, names))
            return self._declare(operator.output, None)
        out = self._levels.get(operator.output)
        if keeps_values(operator):
            names = {name: self._as(name, out) for name in operator.inputs}
        else:
            names = {name: self._as(name, self._levels.get(name)) for name in operator.inputs}
        operator = renamed(operator, names)
        self._operators.append(self._rounded(operator) if isinstance(operator, Conv) else operator)
        self._declare(operator.output, out)

    def _rounded(self, conv: Conv) -> Int8Conv:
        bias = self._scales.biases.get(conv.output, conv.bias)
        scale, most_steps = self._scales.weight_scales.get(conv.output), _MOST_GIVEN_STEPS
        if scale is None:
            scale, most_steps = conv.weight.abs().amax((1, 2, 3)) / _LARGEST, _MOST_STEPS
        levels = self._tensors[conv.inputs[0]].levels
        assert levels is not None
        scale = torch.maximum(scale, bias.abs() / (levels.scale * most_steps)).clamp(min=1e-12)
        parts = {field.name: getattr(conv, field.name) for field in fields(conv)}
        return Int8Conv(**parts | {"bias": bias}, weight_scale=scale)

    def _as(self, name: str, levels: Levels | None) -> str:
        """Return the name of a tensor in this form, and add a conversion where it has only other ones."""
        if (name, levels) not in self._forms:
            kind = "float32" if levels is None else f"{levels.scale:.9g},{levels.zero}"
            output = free_name(f"{name}@{kind}", self._graph.tensors, self._tensors)
            source = self._forms[name, self._first[name]]
            self._operators.append(Convert(name=output, inputs=(source,), output=output))
            self._tensors[output] = replace(self._graph.tensors[name], name=output, levels=levels)
            self._forms[name, levels] = output
        return self._forms[name, levels]

    def _declare(self, name: str, levels: Levels | None) -> None:
        if name in self._graph.tensors:  # a global operator may return something other than a tensor
            self._tensors[name] = replace(self._graph.tensors[name], levels=levels)
        self._forms[name, levels] = name
        self._first[name] = levels


def _computes_levels(operator: Operator, levels: dict[str, Levels], floats: Iterable[str]) -> bool:
    """Tell whether an operator computes on levels: whether it has such a kernel, and its tensors have levels."""
    reads = [name in levels for name in operator.inputs]
    writes = operator.output in levels
    match operator:
        case Conv():
            return all(reads) and operator.output not in floats
        case Elementwise():
            return any(reads) or writes
        case GlobalMean():
            return all(reads)
        case Pool() | Resample() if not keeps_values(operator):
            return all(reads) and writes
    return keeps_values(operator) and writes


def _needed(graph: Graph, scales: Scales) -> dict[str, Levels]:
    """Return, by tensor, the levels that some operator wants to read; elsewhere floats are as cheap, and exact."""
    readers: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        for name in operator.inputs:
            readers.setdefault(name, []).append(operator)
    rounded = {tensor for _, tensor in graph.outputs} if scales.round_outputs else set()
    found: dict[str, Levels] = {}
    for name in (*(operator.output for operator in reversed(graph.operators)), graph.input):
        wanted = (_wants(operator, graph.tensors[name], found, scales) for operator in readers.get(name, ()))
        if name in scales.levels and (name in rounded or any(wanted)):
            found[name] = scales.levels[name]
    return found


def _wants(operator: Operator, spec: TensorSpec, found: dict[str, Levels], scales: Scales) -> bool:
    """Tell whether an operator wants to read a tensor as levels; ``found``: the levels of the tensors after it."""
    match operator:
        case Conv():
            is_large = spec.pixels > 1 or operator.weight.numel() >= _MANY_WEIGHTS
            return (
                is_large and operator.output not in scales.floats and all(n in scales.levels for n in operator.inputs)
            )
        case GlobalMean():
            return True
    has_kernel = isinstance(operator, (Elementwise, Pool, Resample, Select, PixelShuffle, Concat))
    return has_kernel and operator.output in found and (spec.pixels > 1 or keeps_values(operator))
