# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The tensors that steps read and write."""

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
        maps: what local operators read and write.
        values: what global operators read and write: views of maps, or whatever they returned.
        specs: of all tensors of the graph.
        called: outputs of the global operators that have been called at least once.
    """

    maps: Mapping[str, MapBuffer]
    values: dict[str, Any]
    specs: Mapping[str, TensorSpec]
    called: set[str] = field(default_factory=set)
