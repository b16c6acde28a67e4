# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Count the memory that a graph's parameters take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from cacheinf_ros.graph.ir import Graph, Int8Conv, Operator


def weight_bytes(graph: Graph) -> int:
    """Return the bytes of a graph's parameters, each counted once: four, or one as a weight of an int8 convolution.

    Such weights are rounded when an engine starts, and the floats are not read any more: those of a kept graph are
    pages of a file, which the system reclaims.
    """
    return operator_weight_bytes(*graph.operators)


def operator_weight_bytes(*operators: Operator) -> int:
    """Return the bytes of the operators' parameters as :func:`weight_bytes` counts them; 0 where they have none."""
    tensors = {id(tensor): tensor for operator in operators for tensor in _tensors(operator)}
    in_int8 = {id(operator.weight) for operator in operators if isinstance(operator, Int8Conv)}
    return sum(tensor.numel() * (1 if key in in_int8 else 4) for key, tensor in tensors.items())


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
