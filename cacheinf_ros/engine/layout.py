# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How a graph is laid out for execution: what is computed, and which maps are channels of another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.ir import Concat, Global, Operator, Select, TensorSpec, free_name


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Neighbouring channels of another tensor.

    Attributes:
        owner: the other tensor, which may be a view itself.
        first, count: the first of the channels, and how many they are.
    """

    owner: str
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A graph without concatenations and slices: instead, their inputs and outputs share memory.

    Attributes:
        graph: the graph that the layout was made from.
        operators: the operators that are left to compute, in order, with copies into concatenations, whose outputs are
            not in the graph.
        views: by tensor, where it lies in another one; tensors that are not listed have memory of their own.
        leaves: by tensor, the outputs of :attr:`operators` (or the graph's input) that it consists of.
        maps: the tensors that local operators read or write, copies included; not those that only global operators use.
    """

    graph: Graph
    operators: tuple[Operator, ...]
    views: Mapping[str, View]
    leaves: Mapping[str, tuple[str, ...]]
    maps: tuple[str, ...]

    def root(self, name: str) -> str:
        """Return the tensor in whose memory this one lies."""
        while name in self.views:
            name = self.views[name].owner
        return name

    def spec(self, name: str) -> TensorSpec:
        """Return the specification of a tensor of the graph, or of a copy."""
        if name in self.graph.tensors:
            return self.graph.tensors[name]
        view = self.views[name]
        owner = self.graph.tensors[view.owner]
        return replace(owner, name=name, shape=(1, view.count, *owner.shape[2:]))


def lay_out(graph: Graph) -> Layout:
    """Place inputs of a concatenation inside its output, and selections of neighbouring channels inside their source.

    Neither costs anything then. The graph's input and what a global operator returns are written by others, and are
    copied.
    """
    views = _views(graph)
    operators: list[Operator] = []
    leaves: dict[str, tuple[str, ...]] = {graph.input: (graph.input,)}
    for operator in graph.operators:
        if isinstance(operator, Concat):
            leaves[operator.output] = _concatenated(operator, graph, views, leaves, operators)
        elif isinstance(operator, Select) and _lies_in(views.get(operator.output), operator.inputs[0]):
            leaves[operator.output] = leaves[operator.inputs[0]]
        else:
            operators.append(operator)
            leaves[operator.output] = (operator.output,)
    local = [o for o in (*graph.operators, *operators) if not isinstance(o, Global)]
    used = (graph.input, *(name for o in local for name in (*o.inputs, o.output)))
    maps = tuple(dict.fromkeys(used))
    return Layout(graph=graph, operators=tuple(operators), views=views, leaves=leaves, maps=maps)


def _views(graph: Graph) -> dict[str, View]:
    written_here = {operator.output for operator in graph.operators if not isinstance(operator, Global)}
    found: dict[str, View] = {}
    for operator in reversed(graph.operators):
        if isinstance(operator, Concat):
            first = 0
            for name in operator.inputs:
                count = graph.tensors[name].channels
                if name in written_here:
                    found.setdefault(name, View(owner=operator.output, first=first, count=count))
                first += count
        elif isinstance(operator, Select) and operator.is_together:
            first, count = operator.channels[0], len(operator.channels)
            found.setdefault(operator.output, View(owner=operator.inputs[0], first=first, count=count))
    return found


def _lies_in(view: View | None, owner: str) -> bool:
    return view is not None and view.owner == owner


def _concatenated(
    concat: Concat,
    graph: Graph,
    views: dict[str, View],
    leaves: dict[str, tuple[str, ...]],
    operators: list[Operator],
) -> tuple[str, ...]:
    """Return the concatenation's leaves; inputs that do not lie inside it get an operator that copies them there."""
    parts: list[str] = []
    first = 0
    for name in concat.inputs:
        count = graph.tensors[name].channels
        place = View(owner=concat.output, first=first, count=count)
        if views.get(name) == place:
            parts += leaves[name]
        else:
            output = free_name(f"{concat.output}:{first}", graph.tensors, views)
            operators.append(
                Select(name=f"{concat.name}:{first}", inputs=(name,), output=output, channels=tuple(range(count)))
            )
            views[output], leaves[output] = place, (output,)
            parts.append(output)
        first += count
    return tuple(dict.fromkeys(parts))
