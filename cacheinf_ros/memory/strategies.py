# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""All strategies by name, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from cacheinf_ros.memory import offsets, shared_objects
from cacheinf_ros.memory.placement import Placement
from cacheinf_ros.memory.records import TensorRecord, least_for_offsets

Strategy: TypeAlias = Callable[[Sequence[TensorRecord]], Placement]

SHARED_OBJECTS: Mapping[str, Strategy] = MappingProxyType(
    {
        "greedy_by_size": shared_objects.greedy_by_size,
        "greedy_by_size_improved": shared_objects.greedy_by_size_improved,
        "greedy_by_breadth": shared_objects.greedy_by_breadth,
        "greedy_in_order": shared_objects.greedy_in_order,
        "min_cost_flow": shared_objects.min_cost_flow,
        "naive": shared_objects.naive,
    }
)
OFFSETS: Mapping[str, Strategy] = MappingProxyType(
    {
        "greedy_by_size": offsets.greedy_by_size,
        "greedy_by_breadth": offsets.greedy_by_breadth,
        "greedy_in_order": offsets.greedy_in_order,
        "strip_packing_best_fit": offsets.strip_packing_best_fit,
        "naive": shared_objects.naive,
    }
)


def best_of_greedy(records: Sequence[TensorRecord]) -> Placement:
    """Return the smallest placement that any strategy finds except ``min_cost_flow``, whose time is cubic.

    Section 6 of the paper advises to try them all. An assignment to shared objects is a placement in one arena too.
    """
    least, best = least_for_offsets(records), None
    for strategy in dict.fromkeys((*OFFSETS.values(), *SHARED_OBJECTS.values())):
        if strategy is shared_objects.min_cost_flow:
            continue
        found = strategy(records)
        if best is None or found.size < best.size:
            best = found
        if best.size == least:
            break
    assert best is not None
    return best
