# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The scales by which a graph is computed in int8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from cacheinf_ros.graph.ir import Levels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scales:
    """How the tensors of one graph are represented in 8 bits.

    Attributes:
        levels: levels by tensor; tensors without any stay floats.
        biases: float32 [channels], by convolution's output: biases in place of its own, where rounded weights shift the
            mean.
        weight_scales: float32 [channels], by convolution's output: the units of its weights. Convolutions without take
            them from the largest weight of each channel.
        floats: outputs of operators that compute in float32, because they would lose too much accuracy otherwise.
        round_outputs: whether the graph's outputs are rounded to their levels, too; otherwise they are floats.
    """

    levels: Mapping[str, Levels]
    biases: Mapping[str, torch.Tensor] = field(default_factory=dict)
    weight_scales: Mapping[str, torch.Tensor] = field(default_factory=dict)
    floats: frozenset[str] = frozenset()
    round_outputs: bool = False
