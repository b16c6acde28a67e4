# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The robot's node of the comparison: ours, which can also be told to cut between layers only."""

from __future__ import annotations

from functools import partial

from benchmarks.offload.comparators import ONLY_LAYERS
from benchmarks.offload.layer_cuts import LayerCuts
from cacheinf_ros.nodes.cached_inference import CachedInferenceNode
from cacheinf_ros.nodes.frame_node import run_node


class ComparedNode(CachedInferenceNode):
    """Our node with the additional parameter ``only_layers``."""

    def __init__(self) -> None:
        # frames are divided when the node spins: the parameter is there by then
        super().__init__(partial(LayerCuts, only_layers=lambda: bool(self.get_parameter(ONLY_LAYERS).value)))
        self.declare_parameter(ONLY_LAYERS, False)


def main() -> int:
    """Run the node."""
    return run_node("cached_inference", ComparedNode)
