# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Place tensors in one memory arena, by the times at which they are alive."""

from cacheinf_ros.memory.operator_order import OperatorUse, smallest_order
from cacheinf_ros.memory.placement import Placement, check
from cacheinf_ros.memory.records import MIB, TensorRecord, aligned, least_for_offsets, least_for_shared_objects
from cacheinf_ros.memory.strategies import OFFSETS, SHARED_OBJECTS, best_of_greedy

__all__ = [
    "MIB", "OFFSETS", "SHARED_OBJECTS", "OperatorUse", "Placement", "TensorRecord", "aligned", "best_of_greedy",
    "check", "least_for_offsets", "least_for_shared_objects", "smallest_order",
]  # fmt: skip

# Importing it loads numba, which engines start without.
__all__ += ["optimal"]
