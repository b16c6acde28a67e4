# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which feature maps outlive a frame."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph.ir import Global


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """What is kept between frames; the rest is computed where what is kept needs it (CacheInf section 4.2).

    Attributes:
        dropped: the maps that live only within a frame, of those in :func:`droppable`.
        dense: everything is computed when anything changes.
    """

    dropped: frozenset[str] = frozenset()
    dense: bool = False

    @classmethod
    def nothing(cls, layout: Layout) -> Caching:
        """Dense execution."""
        return cls(dropped=frozenset(droppable(layout)), dense=True)


EVERYTHING = Caching()
"""Every map is kept."""


def droppable(layout: Layout) -> tuple[str, ...]:
    """The maps that need not outlive a frame, in the order in which they are computed.

    Not the graph's input and its outputs, and not what global operators read or return: their results may share its
    memory. Nor maps of one pixel, which save nothing.
    """
    graph = layout.graph
    ends = [graph.input, *(tensor for _, tensor in graph.outputs)]
    for operator in graph.operators:
        if isinstance(operator, Global):
            ends += (*operator.inputs, operator.output)
    kept = {layout.root(name) for name in ends}
    roots = dict.fromkeys(layout.root(operator.output) for operator in layout.operators)
    return tuple(name for name in roots if name not in kept and graph.tensors[name].pixels > 1)
