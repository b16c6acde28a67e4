# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Reorders a graph's operators so that the feature maps of one frame need the smallest arena."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.layout import Layout, lay_out
from cacheinf_ros.engine.lifetimes import ALIGNMENT, lifetimes, map_bytes
from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.ir import Operator
from cacheinf_ros.memory import OperatorUse, TensorRecord, aligned, least_for_offsets, smallest_order

_SEARCH_S = 1.0  # seconds of search for the arena of each order


def in_smallest_order(graph: Graph, caching: Caching) -> Graph:
    """Reorder the operators where that saves memory; each stays behind those whose results it reads.

    A frame's results stay the same bit for bit. Both orders are compared by their exact memory placement; the graph's
    own order stays where the other one is no better, or would change which maps lie inside which others.
    """
    layout = lay_out(graph)
    records = records_of(layout, caching)
    if not records:
        return graph
    operators, sizes = _uses(layout, caching)
    found = smallest_order(operators, sizes)
    if found.breadth >= least_for_offsets(records):
        return graph
    reordered = _reordered(graph, [layout.operators[i].output for i in found.order])
    other = lay_out(reordered)
    if dict(other.views) != dict(layout.views):
        return graph
    from cacheinf_ros.memory.optimal import optimal  # here: it loads numba

    own, others = (optimal(r, time_limit_s=_SEARCH_S).placement.size for r in (records, records_of(other, caching)))
    return reordered if others < own else graph


def records_of(layout: Layout, caching: Caching) -> list[TensorRecord]:
    """Return the lifetime of each map that lives only within a frame, as the engine executes the graph."""
    return lifetimes(Planner(layout).plan(caching).steps, layout, caching)


def _uses(layout: Layout, caching: Caching) -> tuple[list[OperatorUse], list[int]]:
    """Return what each of the layout's operators needs, and the bytes of each map that lives only within a frame."""
    makers = {operator.output: index for index, operator in enumerate(layout.operators)}
    roots = sorted(caching.dropped)
    number = {name: index for index, name in enumerate(roots)}
    uses = []
    for operator in layout.operators:
        read = {leaf for name in operator.inputs for leaf in layout.leaves.get(name, (name,))}
        touched = {layout.root(name) for name in (*operator.inputs, operator.output)}
        uses.append(
            OperatorUse(
                after=frozenset(makers[leaf] for leaf in read if leaf in makers),
                tensors=frozenset(number[name] for name in touched if name in number),
            )
        )
    return uses, [aligned(map_bytes(layout, name), ALIGNMENT) for name in roots]


def _reordered(graph: Graph, outputs: Iterable[str]) -> Graph:
    """Put operators in the order of these outputs; those that became views come just before their first reader."""
    makers = {operator.output: operator for operator in graph.operators}
    placed: dict[str, Operator] = {}

    def place(name: str) -> None:
        if name in placed or name not in makers:
            return
        for needed in makers[name].inputs:
            place(needed)
        placed[name] = makers[name]

    for output in outputs:
        place(output)
    for name in makers:
        place(name)
    return replace(graph, operators=type(graph.operators)(placed.values()))
