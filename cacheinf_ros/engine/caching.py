# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The choice of the feature maps that are kept between frames."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph.ir import Global


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """Which maps are kept between frames; others are computed where a kept map needs them (CacheInf section 4.2).

    Attributes:
        dropped: the maps, out of :func:`droppable`, that live only within a frame.
        dense: whether everything is computed when anything changes.
    """

    dropped: frozenset[str] = frozenset()
    dense: bool = False

    @classmethod
    def nothing(cls, layout: Layout) -> Caching:
        """Keep only the maps that must be kept, and compute everything: dense execution."""
        return cls(dropped=frozenset(droppable(layout)), dense=True)


EVERYTHING = Caching()
"""The caching that keeps every map."""


def droppable(layout: Layout) -> tuple[str, ...]:
    """List the maps that need not outlive a frame, in the order in which they are computed.

    The list leaves out the graph's input and outputs, and what global operators read or return, as a result may share
    the memory of what was read. It also leaves out maps of one pixel, which save nothing.
    """
    graph = layout.graph
    ends = [graph.input, *(tensor for _, tensor in graph.outputs)]
    for operator in graph.operators:
        if isinstance(operator, Global):
            ends += (*operator.inputs, operator.output)
    kept = {layout.root(name) for name in ends}
    roots = dict.fromkeys(layout.root(operator.output) for operator in layout.operators)
    return tuple(name for name in roots if name not in kept and graph.tensors[name].pixels > 1)
