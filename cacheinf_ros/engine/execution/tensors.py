# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The tensors that a plan's steps read and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.graph.ir import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensors:
    """Holds tensors by name.

    Attributes:
        maps: the feature maps that local operators read and write.
        values: what global operators read and write: views of maps, or whatever such an operator returned.
        specs: the shapes and types of all tensors of the graph.
        called: the outputs of the global operators that this machine has called, and no other machine since then.
    """

    maps: Mapping[str, MapBuffer]
    values: dict[str, Any]
    specs: Mapping[str, TensorSpec]
    called: set[str] = field(default_factory=set)
