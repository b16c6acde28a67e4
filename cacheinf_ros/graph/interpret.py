# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Execute a graph densely by plain torch: the simple counterpart of the engine, for tests and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cacheinf_ros.graph.dense_operators import dense_operator
from cacheinf_ros.graph.ir import Global, Graph, Operator, Pointwise, TensorSpec, resolve

Values = dict[str, Any]
"""Values by name, each in the shape that the graph gives it; what a global operator returns may be no tensor."""


class DenseGraph(torch.nn.Module):
    """Computes every operator of a graph completely; returns the outputs by name."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        self._steps = [self._prepared(i, operator) for i, operator in enumerate(graph.operators)]
        last_use = {name: i for i, o in enumerate(graph.operators) for name in (*o.inputs, o.output)}
        self._ended: list[list[str]] = [[] for _ in graph.operators]  # what nobody reads after each step
        for name, i in last_use.items():
            if name not in {tensor for _, tensor in graph.outputs}:
                self._ended[i].append(name)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Compute the outputs, by name, of an image, float32 [1, channels, height, width]."""
        values: Values = {self._graph.input: image}
        for operator, step, ended in zip(self._graph.operators, self._steps, self._ended, strict=True):
            values[operator.output] = step(values)
            for name in ended:
                del values[name]
        return {name: values[tensor] for name, tensor in self._graph.outputs}

    def tensors(self, image: Tensor) -> dict[str, Tensor]:
        """Compute every tensor of the graph, by its name there; gradients can be taken between them."""
        values: Values = {self._graph.input: image}
        for operator, step in zip(self._graph.operators, self._steps, strict=True):
            values[operator.output] = step(values)
        return values

    def _prepared(self, index: int, operator: Operator) -> Callable[[Values], Any]:
        if isinstance(operator, Global):
            return lambda values: _called(operator, values)
        specs = self._graph.tensors
        maps = [_as_map(specs[name]) for name in operator.inputs]
        names, result = operator.inputs, _as_specified(specs[operator.output])
        if isinstance(operator, Pointwise):
            return lambda values: result(
                _computed(operator, {n: m(values[n]) for n, m in zip(names, maps, strict=True)})
            )
        module = dense_operator(operator)
        self.add_module(f"operator{index}", module)
        return lambda values: result(module(*[as_map(values[name]) for name, as_map in zip(names, maps, strict=True)]))


class DeferredGraph(torch.nn.Module):
    """A :class:`DenseGraph` that takes time and memory only once it is called."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Compute as :meth:`DenseGraph.forward` does, and build the dense graph at the first call."""
        return self._dense(image)

    @cached_property
    def _dense(self) -> DenseGraph:
        return DenseGraph(self._graph)


def _called(operator: Global, values: Values) -> Any:
    keywords = resolve(operator.keywords, values.__getitem__)
    return operator.call(*resolve(operator.arguments, values.__getitem__), **keywords)


def _computed(operator: Pointwise, maps: dict[str, Tensor]) -> Tensor:
    return operator.call(*resolve(operator.arguments, maps.__getitem__))


def _as_map(spec: TensorSpec) -> Callable[[Tensor], Tensor]:
    """Return a function that reshapes a tensor, if it is a vector, to a map of one pixel."""
    return (lambda x: x) if len(spec.shape) == 4 else (lambda x: x[:, :, None, None])


def _as_specified(spec: TensorSpec) -> Callable[[Tensor], Tensor]:
    """Return a function that reshapes a map of one pixel back to a vector, if the tensor is one."""
    return (lambda x: x) if len(spec.shape) == 4 else (lambda x: x.flatten(1))
