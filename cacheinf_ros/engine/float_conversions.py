# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Adds conversions to a graph where kernels do not read or write the type of floats that a map consists of."""

from __future__ import annotations

from dataclasses import replace

import torch

from cacheinf_ros.engine.stem import NO_STEM, Stem
from cacheinf_ros.graph import Graph, renamed
from cacheinf_ros.graph.ir import ChannelSoftmax, Conv, Convert, Global, Operator, Pointwise, TensorSpec, free_name

_CALLED = (Global, Pointwise)  # torch computes these in float32, from and into maps of any type


def with_conversions(graph: Graph, stem: Stem = NO_STEM) -> Graph:
    """Return the graph as the compiled kernels run it: all that an operator reads and writes is of one type.

    The exception are convolutions outside of the stem, other than depthwise ones: they read 16 bits whatever they
    write, and write float32 where nobody reads anything else. Tensors keep their names, and, but for those outputs,
    their types.
    """
    tensors = dict(graph.tensors)
    for name in _written_in_float32(graph, stem):
        tensors[name] = replace(tensors[name], floats=torch.float32)
    operators: list[Operator] = []
    made: dict[tuple[str, torch.dtype], str] = {}

    def convert(name: str, output: str) -> None:
        operators.append(Convert(name=output, inputs=(name,), output=output))

    def read_as(name: str, floats: torch.dtype) -> str:
        if tensors[name].floats is floats:
            return name
        if (name, floats) not in made:
            other = free_name(f"{name}@{str(floats).removeprefix('torch.')}", tensors)
            convert(name, other)
            tensors[other] = replace(tensors[name], name=other, floats=floats)
            made[name, floats] = other
        return made[name, floats]

    for operator in graph.operators:
        if isinstance(operator, _CALLED):
            operators.append(operator)
            continue
        out = tensors[operator.output]
        floats = _read_type(operator, out, stem)
        operator = renamed(operator, {name: read_as(name, floats) for name in operator.inputs})
        if floats is torch.float32 and out.floats is not floats:
            beside = replace(out, name=free_name(f"{out.name}@float32", tensors), floats=floats)
            tensors[beside.name] = beside
            made[out.name, floats] = beside.name
            operators.append(replace(operator, output=beside.name))
            convert(beside.name, out.name)
        else:
            operators.append(operator)
    return replace(graph, operators=tuple(operators), tensors=tensors)


def computed_in_float32(graph: Graph) -> list[str]:
    """List the names of the operators that have no kernel for 16 bits, and of the convolutions that read float32."""
    return [
        operator.name
        for operator in graph.operators
        if isinstance(operator, (*_CALLED, ChannelSoftmax))
        or (isinstance(operator, Conv) and graph.tensors[operator.inputs[0]].floats is torch.float32)
    ]


def _written_in_float32(graph: Graph, stem: Stem) -> set[str]:
    """Find the maps of 16 bits that a convolution writes and that are read only as float32: none needs a conversion."""
    read_as: dict[str, set[torch.dtype | None]] = {}
    for operator in graph.operators:
        read = None if isinstance(operator, _CALLED) else _read_type(operator, graph.tensors[operator.output], stem)
        for name in operator.inputs:
            read_as.setdefault(name, set()).add(read)
    return {
        operator.output
        for operator in graph.operators
        if isinstance(operator, Conv) and not operator.is_depthwise and read_as.get(operator.output) == {torch.float32}
    }


def _read_type(operator: Operator, out: TensorSpec, stem: Stem) -> torch.dtype:
    """Return the type of floats in which an operator reads its inputs."""
    match operator:
        case _ if out.name in stem.convolutions:
            return torch.float32
        case ChannelSoftmax():
            return torch.float32
        case Conv() if not operator.is_depthwise:
            return torch.bfloat16
    return out.floats
