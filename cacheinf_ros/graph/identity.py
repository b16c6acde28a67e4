# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Hash graphs and operators, as keys for what is measured once and stored."""

from __future__ import annotations

import dataclasses
import hashlib
from enum import Enum
from typing import Any

import numpy as np
import torch

from cacheinf_ros.graph.ir import Graph, Operator


def graph_hash(graph: Graph) -> str:
    """Return a hexadecimal digest of the operators, the shapes and all weights."""
    digest = hashlib.sha256()
    for operator in graph.operators:
        _update(digest, operator)
    _update(digest, (graph.input, graph.outputs, sorted((s.name, s.shape) for s in graph.tensors.values())))
    for spec in graph.tensors.values():
        if spec.levels is not None:
            _update(digest, (spec.name, spec.levels))
    return digest.hexdigest()[:32]


def structure_hash(graph: Graph) -> str:
    """Return a hexadecimal digest of the operators and all shapes, without weights: it decides the computing time."""
    digest = hashlib.sha256()
    _update(digest, (graph.operators, graph.input, graph.outputs), contents=False)
    _update(digest, sorted((s.name, s.shape, s.levels is not None) for s in graph.tensors.values()))
    return digest.hexdigest()[:32]


def operator_hash(operator: Operator) -> str:
    """Return a hexadecimal digest of what an operator does to which tensors, whatever it and its output are called."""
    digest = hashlib.sha256()
    _update(digest, dataclasses.replace(operator, name="", output=""))
    return digest.hexdigest()[:32]


def _update(digest: Any, value: Any, *, contents: bool = True) -> None:
    """Add a value to a digest; ``contents``: whether the contents of arrays count, and not their shapes alone."""
    if isinstance(value, torch.Tensor):
        _update(digest, value.detach().cpu().contiguous().numpy(), contents=contents)
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype}{value.shape}".encode())
        if contents:
            digest.update(value.tobytes())
    elif dataclasses.is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for field in dataclasses.fields(value):
            _update(digest, getattr(value, field.name), contents=contents)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _update(digest, item, contents=contents)
    elif isinstance(value, dict):
        _update(digest, sorted(value.items()), contents=contents)
    elif isinstance(value, Enum):
        digest.update(str(value).encode())
    elif callable(value):
        digest.update(getattr(value, "__qualname__", str(value)).encode())
    else:
        digest.update(repr(value).encode())
    digest.update(b";")
