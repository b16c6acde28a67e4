# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a graph's parameters weigh."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from cacheinf_ros.graph.ir import Graph


def weight_bytes(graph: Graph) -> int:
    """How many bytes a graph's parameters take, float32, each counted once."""
    tensors = {id(tensor): tensor for operator in graph.operators for tensor in _tensors(operator)}
    return sum(4 * tensor.numel() for tensor in tensors.values())


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.name not in ("rows", "columns"):  # taps are no parameters
                yield from _tensors(getattr(value, field.name))
