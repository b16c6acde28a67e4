"""When the tensors of a graph are alive in dense execution without a cache: what the memory planner places."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cacheinf_ros.engine.views import View, views
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.memory import TensorRecord
from cacheinf_ros.memory.records import aligned

ALIGNMENT = 64
"""Bytes: a cache line, and a vector of AVX-512."""
_BYTES = 4  # float32


def intermediate_tensors(graph: Graph, alignment: int = ALIGNMENT) -> list[TensorRecord]:
    """A record for each piece of memory that lives within a frame; the graph's input and outputs are none of them.

    Inputs of a concatenation lie inside its output, and so do selections of neighbouring channels inside their input,
    where the engine computes them there: they share a record. Global operators are taken to copy: their views of an
    input, and what they return that is not float32, are not accounted for.
    """
    inside = views(graph)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, operator in enumerate(graph.operators):
        for name in (operator.output, *operator.inputs):
            root = _root(inside, name)
            first.setdefault(root, index)
            last[root] = index
    kept = {_root(inside, name) for name in (graph.input, *(tensor for _, tensor in graph.outputs))}
    return [
        TensorRecord(size=aligned(_bytes(graph, name), alignment), first=start, last=last[name], name=name)
        for name, start in first.items()
        if name not in kept
    ]


def _root(inside: Mapping[str, View], name: str) -> str:
    while name in inside:
        name = inside[name].owner
    return name


def _bytes(graph: Graph, name: str) -> int:
    return _BYTES * math.prod(graph.tensors[name].shape)
