# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Partitions that are possible, by shares of rows."""

from __future__ import annotations

from collections.abc import Mapping

from cacheinf_ros.engine import Partition, PartitionSpace


def nearest(space: PartitionSpace, shares: Mapping[str, float]) -> Partition:
    """The nearest partition that is possible; ``shares``: by operator's output, of its rows at the robot."""
    rows = {name: round(shares[name] * height) for name, height in space.heights.items()}
    for group in space.groups:
        is_at_robot = sum(shares[name] for name in group) >= len(group) / 2
        rows.update({name: space.heights[name] if is_at_robot else 0 for name in group})
    return Partition(robot_rows=rows)
