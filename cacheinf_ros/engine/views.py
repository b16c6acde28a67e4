"""Which feature maps need no memory of their own, because they are channels of another one."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.graph.ir import Concat, Global, Graph, Select


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


def views(graph: Graph) -> dict[str, View]:
    """By tensor: inputs of a concatenation lie inside its output, so that it costs nothing, and selections of
    neighbouring channels inside what they select from.

    The graph's input and what a global operator returns are written by others: they are no views.
    """
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
