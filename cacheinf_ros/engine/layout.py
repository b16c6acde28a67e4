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
        first, count: channels.
    """

    owner: str
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A graph without concatenations and slices: those are done by where their parts lie.

    Attributes:
        graph: what it was made from.
        operators: what is left to compute, in order: among them copies into concatenations, whose outputs the graph
            does not know.
        views: by tensor, where it lies in another one. The others have memory of their own.
        leaves: by tensor, the outputs of :attr:`operators` (or the graph's input) that it consists of.
        maps: the tensors that local operators read or write, copies too; what only global operators use is none.
    """

    graph: Graph
    operators: tuple[Operator, ...]
    views: Mapping[str, View]
    leaves: Mapping[str, tuple[str, ...]]
    maps: tuple[str, ...]

    def root(self, name: str) -> str:
        """The tensor in whose memory this one lies."""
        while name in self.views:
            name = self.views[name].owner
        return name

    def spec(self, name: str) -> TensorSpec:
        """What a tensor of the graph, or a copy, is like."""
        if name in self.graph.tensors:
            return self.graph.tensors[name]
        view = self.views[name]
        owner = self.graph.tensors[view.owner]
        return replace(owner, name=name, shape=(1, view.count, *owner.shape[2:]))


def lay_out(graph: Graph) -> Layout:
    """Inputs of a concatenation lie inside its output, so that it costs nothing, and selections of neighbouring
    channels inside what they select from.

    The graph's input and what a global operator returns are written by others: they are copied.
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
    """The concatenation's leaves; inputs that do not lie inside it get an operator that copies them there."""
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
