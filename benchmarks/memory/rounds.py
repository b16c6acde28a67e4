# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Planning in several rounds, for networks whose shapes become known while they run.

Section 7 of Pisarchyk and Lee (2020): each round places the tensors whose sizes have become known around the tensors
of earlier rounds, which stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from cacheinf_ros.memory.offsets import Placed
from cacheinf_ros.memory.placement import Placement
from cacheinf_ros.memory.records import TensorRecord, by_size


def in_rounds(rounds: Sequence[Sequence[TensorRecord]]) -> list[Placement]:
    """Place the tensors of each round greedily by size (section 5.2).

    Returns:
        for each round the offsets of its tensors, and the arena's size in bytes by then, which grows.
    """
    placed = Placed(sum(map(len, rounds)))
    placements = []
    for records in rounds:
        offsets = [0] * len(records)
        for index in by_size(records):
            offsets[index] = placed.take(records[index])
        placements.append(Placement(offsets=tuple(offsets), size=placed.end))
    return placements


def by_time(records: Sequence[TensorRecord], rounds: int) -> list[list[TensorRecord]]:
    """Group tensors as they become known if shapes do so at ``rounds`` moments, spread evenly over the operators."""
    end = max((record.first for record in records), default=0) + 1
    groups: list[list[TensorRecord]] = [[] for _ in range(rounds)]
    for record in records:
        groups[record.first * rounds // end].append(record)
    return groups
