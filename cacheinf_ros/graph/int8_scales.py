# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How a graph is computed in int8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from cacheinf_ros.graph.ir import Levels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scales:
    """How the tensors of one graph are written in 8 bits.

    Attributes:
        levels: by tensor; those without any stay floats.
        biases: float32 [channels], by convolution's output: in place of its own, where rounded weights shift the mean.
        weight_scales: float32 [channels], by convolution's output: the units of its weights, where they are given; the
            others take the largest weight of each channel.
        floats: outputs of operators that compute in float32, because they lose too much otherwise.
        round_outputs: whether levels of the graph's outputs count as well, which are floats otherwise.
    """

    levels: Mapping[str, Levels]
    biases: Mapping[str, torch.Tensor] = field(default_factory=dict)
    weight_scales: Mapping[str, torch.Tensor] = field(default_factory=dict)
    floats: frozenset[str] = frozenset()
    round_outputs: bool = False
