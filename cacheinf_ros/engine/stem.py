# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The stem of a network: its first operators, which stay in float32 where feature maps are kept in 16 bits."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.ir import Conv

_CONVOLUTIONS = 2  # in a row that compute in float32: with a third one networks decide hardly any more alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """What stays in float32; nothing by default.

    Attributes:
        maps: the tensors that do: the input, and what lies before the last of the stem's convolutions.
        convolutions: outputs of the convolutions that compute in it.
    """

    maps: frozenset[str] = frozenset()
    convolutions: frozenset[str] = frozenset()


NO_STEM = Stem()


def stem_of(graph: Graph) -> Stem:
    """The first two convolutions on each path from the input, and the maps that lead to them.

    Pixels lie far from zero and differ by little, and what is rounded there goes through the whole network: in float32
    these few operators take a fifth to a half of what 16 bits change in what a network decides.
    """
    depth = {graph.input: 0}
    for operator in graph.operators:
        before = max((depth[name] for name in operator.inputs if name in depth), default=_CONVOLUTIONS)
        depth[operator.output] = before + isinstance(operator, Conv)
    return Stem(
        maps=frozenset(name for name, count in depth.items() if count < _CONVOLUTIONS),
        convolutions=frozenset(
            operator.output
            for operator in graph.operators
            if isinstance(operator, Conv) and depth[operator.output] <= _CONVOLUTIONS
        ),
    )
