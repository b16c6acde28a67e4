# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The stem of a network: its first operators, which stay in float32 where feature maps are kept in 16 bits."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.ir import Conv

_CONVOLUTIONS = 2  # in a row that compute in float32: with a third one hardly any more decisions stay the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """The part of a network that stays in float32; none by default.

    Attributes:
        maps: the tensors that stay in float32: the input, and what lies before the last of the stem's convolutions.
        convolutions: the outputs of the convolutions that compute in float32.
    """

    maps: frozenset[str] = frozenset()
    convolutions: frozenset[str] = frozenset()


NO_STEM = Stem()


def stem_of(graph: Graph) -> Stem:
    """Find the first two convolutions on each path from the input, and the maps that lead to them.

    Pixels lie far from zero and differ by little, and rounding errors there go through the whole network: keeping these
    few operators in float32 avoids a fifth to a half of the changes of decisions that 16 bits cause.
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
