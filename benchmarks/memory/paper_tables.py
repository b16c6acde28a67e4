# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tables 1 and 2 and figures 1 to 6 of Pisarchyk and Lee (2020), the paper's numbers next to ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from benchmarks.memory.networks import PAPER_NETWORKS
from benchmarks.memory.paper_strategies import PAPER_OFFSETS, PAPER_SHARED_OBJECTS
from cacheinf_ros.memory import MIB, Placement, TensorRecord, check, least_for_offsets, least_for_shared_objects
from cacheinf_ros.memory.records import breadth, positional_maxima, profiles
from cacheinf_ros.memory.strategies import Strategy

_NAIVE = (19.248, 26.313, 48.642, 54.010, 28.556, 2.698)
PUBLISHED: Mapping[int, Mapping[str, tuple[float, ...]]] = MappingProxyType(
    {
        1: {
            "greedy_by_size": (4.594, 7.178, 6.437, 10.337, 6.347, 0.592),
            "greedy_by_size_improved": (4.594, 6.891, 6.437, 10.337, 6.347, 0.518),
            "greedy_by_breadth": (6.125, 6.699, 6.437, 10.676, 8.390, 0.675),
            "greedy_in_order": (4.594, 8.039, 7.168, 12.703, 6.347, 0.587),
            "min_cost_flow": (5.359, 7.513, 8.364, 10.624, 7.359, 0.582),
            "lower_bound": (4.594, 6.604, 6.105, 8.955, 6.347, 0.518),
            "naive": _NAIVE,
        },
        2: {
            "greedy_by_size": (4.594, 5.742, 4.653, 7.914, 6.271, 0.492),
            "greedy_by_breadth": (4.594, 5.742, 4.653, 7.914, 7.359, 0.656),
            "greedy_in_order": (6.125, 6.508, 4.985, 10.624, 8.362, 0.492),
            "strip_packing_best_fit": (4.594, 6.029, 4.321, 7.914, 6.271, 0.533),
            "lower_bound": (4.594, 5.742, 4.320, 7.914, 6.271, 0.492),
            "naive": _NAIVE,
        },
    }
)
"""The paper's MiB by table and row, in the order of :data:`PAPER_NETWORKS` (the paper says MB)."""

EXAMPLE = tuple(
    TensorRecord(size=size, first=first, last=last, name=f"#{number}")
    for number, (size, first, last) in enumerate(
        [(32, 0, 1), (28, 1, 4), (36, 2, 5), (16, 3, 5), (8, 4, 5), (64, 5, 7), (10, 6, 8), (40, 7, 8)]
    )
)
"""The network of figure 1, which is a picture: these records agree with all numbers that the text states about it."""

_PLACED: Mapping[int, tuple[str, Strategy]] = MappingProxyType(
    {
        3: ("object", PAPER_SHARED_OBJECTS["greedy_by_breadth"]),
        4: ("object", PAPER_SHARED_OBJECTS["greedy_by_size"]),
        5: ("object", PAPER_SHARED_OBJECTS["greedy_by_size_improved"]),
        6: ("offset", PAPER_OFFSETS["greedy_by_size"]),
    }
)
TABLES, FIGURES = tuple(PUBLISHED), (1, 2, *_PLACED)


def table(number: int) -> dict[str, Any]:
    """Compute a table: MiB by strategy and network, the paper's and ours.

    ``number`` is one of :data:`TABLES`.
    """
    strategies, bound = (
        (PAPER_SHARED_OBJECTS, least_for_shared_objects) if number == 1 else (PAPER_OFFSETS, least_for_offsets)
    )
    ours: dict[str, list[float]] = {row: [] for row in PUBLISHED[number]}
    for make in PAPER_NETWORKS.values():
        records = make()
        for name, strategy in strategies.items():
            placement = strategy(records)
            check(records, placement)
            ours[name].append(placement.size / MIB)
        ours["lower_bound"].append(bound(records) / MIB)
        ours["naive"].append(sum(record.size for record in records) / MIB)
    return {
        row: {
            network: {"paper": theirs, "ours": round(mine, 6)}
            for network, theirs, mine in zip(PAPER_NETWORKS, published, ours[row], strict=True)
        }
        for row, published in PUBLISHED[number].items()
    }


def figure(number: int) -> dict[str, Any]:
    """Compute a figure's example: usage records (1), profiles and bounds (2), or a placement (3 to 6).

    ``number`` is one of :data:`FIGURES`.
    """
    if number == 1:
        return {"records": [{"tensor": r.name, "size": r.size, "first": r.first, "last": r.last} for r in EXAMPLE]}
    if number == 2:
        return {
            "profiles": [
                {
                    "operator": operator,
                    "sizes": [EXAMPLE[i].size for i in profile],
                    "breadth": breadth(EXAMPLE, profile),
                }
                for operator, profile in profiles(EXAMPLE)
            ],
            "positional_maxima": positional_maxima(EXAMPLE),
            "least_for_shared_objects": least_for_shared_objects(EXAMPLE),
            "least_for_offsets": least_for_offsets(EXAMPLE),
        }
    kind, placement = _PLACED[number][0], placed(number)
    places = placement.offsets if placement.objects is None else placement.objects
    return {
        "size": placement.size,
        "tensors": [
            {"tensor": record.name, "size": record.size, kind: place}
            for record, place in zip(EXAMPLE, places, strict=True)
        ],
    }


def placed(number: int) -> Placement:
    """Place the example by the strategy of figure 3, 4, 5 or 6."""
    placement = _PLACED[number][1](EXAMPLE)
    check(EXAMPLE, placement)
    return placement
