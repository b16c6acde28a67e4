"""When the tensors of a graph are alive in dense execution without a cache: what the memory planner places."""

from __future__ import annotations

import math

from cacheinf_ros.graph.ir import Concat, Global, Graph, Operator, Select
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
    owner = _owners(graph)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, operator in enumerate(graph.operators):
        for name in (operator.output, *operator.inputs):
            root = _root(owner, name)
            first.setdefault(root, index)
            last[root] = index
    kept = {_root(owner, name) for name in (graph.input, *(tensor for _, tensor in graph.outputs))}
    return [
        TensorRecord(size=aligned(_bytes(graph, name), alignment), first=start, last=last[name], name=name)
        for name, start in first.items()
        if name not in kept
    ]


def _owners(graph: Graph) -> dict[str, str]:
    """By tensor that lies inside another one: which."""
    producers: dict[str, Operator] = {operator.output: operator for operator in graph.operators}
    owner: dict[str, str] = {}
    for operator in reversed(graph.operators):
        if isinstance(operator, Concat):
            for name in operator.inputs:
                if name in producers and name not in owner and not isinstance(producers[name], Global):
                    owner[name] = operator.output
        elif isinstance(operator, Select) and operator.output not in owner:
            start, count = operator.channels[0], len(operator.channels)
            if operator.channels == tuple(range(start, start + count)):
                owner[operator.output] = operator.inputs[0]
    return owner


def _root(owner: dict[str, str], name: str) -> str:
    while name in owner:
        name = owner[name]
    return name


def _bytes(graph: Graph, name: str) -> int:
    return _BYTES * math.prod(graph.tensors[name].shape)
