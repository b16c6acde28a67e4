# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model's demand on a machine, predicted by the timeline with which partitions are chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import EngineConfig, lay_out
from cacheinf_ros.engine.quantisation import executed_graph
from cacheinf_ros.graph import Model, weight_bytes
from cacheinf_ros.offload.planning import Machines, Timeline, Workload, tensor_bytes

_TYPICAL_REUSE = 0.9
_MBIT_S = 1000.0


class ModelDemand:
    """Predicts what frames of one model take on a machine."""

    def __init__(self, model: Model, config: EngineConfig) -> None:
        """Lay the model out as processes with this configuration run it, which takes some time.

        Raises:
            EngineError: the model cannot be run so: there are no scales for int8, or the device lacks the precision.
        """
        graph = executed_graph(model, config)
        self.workload = Workload(lay_out(graph))
        self.memory_bytes = float(tensor_bytes(self.workload).sum()) + weight_bytes(graph)

    def predicted_ms(self, profile: NDArray[np.float64]) -> tuple[float, float]:
        """Predict the ms of a typical frame and of one that has changed everywhere, both all at the server.

        Args:
            profile: float64 [operators, points] of the server, see :func:`~cacheinf_ros.offload.planning.profile`;
                empty: the server has none, and no robot shares frames with it; both predictions are then 0.
        """
        if not len(profile):
            return 0.0, 0.0
        around = Machines(robot_ms=profile, server_ms=profile)
        nothing_here = np.zeros(len(self.workload.names), np.int64)

        def busy_ms(reuse: float) -> float:
            active = self.workload.active_at(reuse)
            return Timeline(self.workload, around.conditions(_MBIT_S, active, active)).times(nothing_here).server_busy

        return busy_ms(_TYPICAL_REUSE), busy_ms(0.0)
