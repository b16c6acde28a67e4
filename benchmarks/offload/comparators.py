# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Other ways to divide frames between robot and server, which ``cacheinf bench offload`` compares ours with.

DADS (Hu et al. 2019) cuts a network in two between layers, Hybrid-Parallel divides the rows of each operator. Neither
has a cache: the robot's engine then runs in mode dense.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.offload import setting
from benchmarks.offload.setting import RobotNode, System
from cacheinf_ros.engine import Mode
from cacheinf_ros.matching import MatcherName
from cacheinf_ros.offload_policy import OffloadPolicy

ONLY_LAYERS = "only_layers"
"""The name of the parameter that :mod:`.robot_node` adds."""

_LAYERS = System(policy=OffloadPolicy.CACHEINF, parameters={ONLY_LAYERS: True})
_ROWS = System(policy=OffloadPolicy.CACHEINF, parameters={ONLY_LAYERS: False})


def _following(system: System) -> System:
    """Return the system with a cache that follows the camera by homographies, as in CacheInf's section 4."""
    return replace(
        system, robot=Mode.BOUNDED, parameters={**system.parameters, "matcher": MatcherName.HOMOGRAPHY.value}
    )


SYSTEMS: Mapping[str, System] = {
    **{name: replace(system, parameters={ONLY_LAYERS: False}) for name, system in setting.SYSTEMS.items()},
    "dnn_surgery": replace(_LAYERS, robot=Mode.DENSE),
    "dnn_surgery_cached": _LAYERS,
    "hybrid_parallel": replace(_ROWS, robot=Mode.DENSE),
    "dnn_surgery_cached_following": _following(_LAYERS),
    "cacheinf_following": _following(_ROWS),
    "cacheinf_saving": replace(_ROWS, parameters={**_ROWS.parameters, setting.SLOWER_FOR_ENERGY: 0.2}),
}
"""All systems that can be measured in a checkout, by name."""


def robot() -> RobotNode:
    """Return the robot's node, :mod:`.robot_node`, with a PYTHONPATH on which its process finds it."""
    folders = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    return RobotNode(executable="benchmarks.offload.robot_node", environment=environment)
