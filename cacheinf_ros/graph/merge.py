# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Merge several graphs of one image into one, which computes what they share once (MCDNN, section 5.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.fuse import renamed
from cacheinf_ros.graph.identity import operator_hash
from cacheinf_ros.graph.ir import Global, Graph, Operator, Pointwise, TensorSpec

_INPUT = "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One graph that computes what several did.

    Attributes:
        graph: the merged graph; its outputs are called "model/output".
        users: for each operator's output, the models for which it is computed, in their order.
        names: for each model, its tensors' names -> their names in the merged graph.
    """

    graph: Graph
    users: Mapping[str, tuple[str, ...]]
    names: Mapping[str, Mapping[str, str]]

    @property
    def flops_apart(self) -> int:
        """The flops of convolutions and linear layers, each model on its own."""
        return sum(self.graph.flops(o) * len(self.users[o.output]) for o in self.graph.operators)

    @property
    def flops(self) -> int:
        """The flops of convolutions and linear layers where models share them."""
        return self.graph.total_flops


def merge_graphs(graphs: Mapping[str, Graph]) -> Merged:
    """Merge graphs by model name: from the input on, operators that do the same to the same tensors become one.

    What is shared need not be a chain: it is whatever part of the graphs, from the input on, is equal in structure,
    parameters and weights. Every operator computes with the same numbers as in its own graph.

    Raises:
        ModelError: there is no graph, or their inputs have different shapes.
    """
    shapes = {name: graph.tensors[graph.input].shape for name, graph in graphs.items()}
    if len(set(shapes.values())) != 1:
        raise ModelError(f"only models whose images have the same size can be merged, not {shapes}")
    merging = _Merging(next(iter(shapes.values())))
    for name, graph in graphs.items():
        merging.add(name, graph)
    return merging.merged()


class _Merging:
    def __init__(self, input_shape: tuple[int, ...]) -> None:
        self._operators: dict[str, Operator] = {}  # by output
        self._tensors = {_INPUT: TensorSpec(name=_INPUT, shape=input_shape)}
        self._known: dict[str, list[str]] = {}  # by hash: the outputs of operators that may be equal
        self._users: dict[str, list[str]] = {}
        self._outputs: list[tuple[str, str]] = []
        self._names: dict[str, dict[str, str]] = {}

    def add(self, model: str, graph: Graph) -> None:
        names = self._names[model] = {graph.input: _INPUT}
        for operator in graph.operators:
            names[operator.output] = self._place(model, graph, operator, renamed(operator, names))
        self._outputs += [(f"{model}/{name}", names[tensor]) for name, tensor in graph.outputs]

    def merged(self) -> Merged:
        graph = Graph(
            input=_INPUT,
            outputs=tuple(self._outputs),
            operators=tuple(self._operators.values()),
            tensors=self._tensors,
        )
        users = {output: tuple(models) for output, models in self._users.items()}
        return Merged(graph=graph, users=users, names=self._names)

    def _place(self, model: str, graph: Graph, operator: Operator, here: Operator) -> str:
        """Return the tensor that stands for the operator's output, and add the operator if no other does the same.

        ``here``: the operator as it reads the merged tensors.
        """
        known = self._known.setdefault(operator_hash(here), [])
        spec = graph.tensors.get(operator.output)
        for output in known:
            if self._is_same(output, here, spec):
                if model not in self._users[output]:
                    self._users[output].append(model)
                return output
        output = operator.output
        if output in self._operators or output in self._tensors:
            output = f"{model}/{output}"
        known.append(output)
        self._operators[output] = replace(here, output=output)
        self._users[output] = [model]
        if spec is not None:
            self._tensors[output] = replace(spec, name=output)
        return output

    def _is_same(self, output: str, operator: Operator, spec: TensorSpec | None) -> bool:
        other, shape = self._operators[output], self._tensors.get(output)
        if (shape and shape.shape) != (spec and spec.shape):
            return False
        # a function's hash is its name's, and closures may share one
        calls = [o.call if isinstance(o, (Global, Pointwise)) else None for o in (other, operator)]
        return bool(calls[0] == calls[1])
