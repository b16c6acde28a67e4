# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Int8 quantisation: turns a graph into one whose feature maps are 8-bit levels, with scales from a user's frames."""

from cacheinf_ros.engine.quantisation.embedded import own_scales
from cacheinf_ros.engine.quantisation.executed_model import (
    describe,
    executed_graph,
    executed_model,
    graph_in_levels,
)
from cacheinf_ros.engine.quantisation.int8_graph import int8_graph
from cacheinf_ros.engine.quantisation.quantiser import Quantised, quantise, spread
from cacheinf_ros.engine.quantisation.scales import (
    Maker,
    checked_scales,
    computes_int8,
    is_int8,
    keep_scales,
    kept_scales,
    precision_of,
    scales_bytes,
)
from cacheinf_ros.engine.quantisation.scales_of_frames import scales_of_frames

__all__ = [
    "Maker", "Quantised", "checked_scales", "computes_int8", "describe", "executed_graph", "executed_model",
    "graph_in_levels", "int8_graph", "is_int8", "keep_scales", "kept_scales", "own_scales", "precision_of", "quantise",
    "scales_bytes", "scales_of_frames", "spread",
]  # fmt: skip
