# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Changes a graph so that its feature maps are kept in 16 bits."""

from __future__ import annotations

from dataclasses import replace

import torch

from cacheinf_ros.engine.engine_config import Precision
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.stem import NO_STEM, Stem
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Graph

_HALVES = {Precision.FLOAT16: torch.float16, Precision.BFLOAT16: torch.bfloat16}


def kept_floats(device: str, precision: Precision) -> torch.dtype:
    """Return the type in which engines on a device keep feature maps of floats; float16 needs a GPU.

    Raises:
        EngineError: the precision is float16, and the device is no GPU.
    """
    kind = device.partition(":")[0]
    if kind == "cuda" or (kind == "cpu" and precision is Precision.BFLOAT16):
        return _HALVES.get(precision, torch.float32)
    if precision is Precision.FLOAT16:
        raise EngineError(
            f"precision float16 needs device cuda, not {device!r}: set device to cuda, or precision to float32 or "
            "bfloat16"
        )
    return torch.float32


def with_maps_in(graph: Graph, floats: torch.dtype, stem: Stem = NO_STEM) -> Graph:
    """Return the graph with its maps kept in a type of floats, except its stem, its outputs and the maps they lie in.

    Outputs stay float32: decoders read coordinates from them, which 8 bits of mantissa would round to several pixels,
    and what computes them has sums in float32 anyway.
    """
    if floats is torch.float32:
        return graph
    layout = lay_out(graph)
    wide = {layout.root(tensor) for _, tensor in graph.outputs}
    narrow = {name for name in layout.maps if layout.root(name) not in wide | stem.maps}
    tensors = {name: replace(spec, floats=floats) if name in narrow else spec for name, spec in graph.tensors.items()}
    return replace(graph, tensors=tensors)
