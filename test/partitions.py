# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Possible partitions, found from the shares of rows that are wanted."""

from __future__ import annotations

from collections.abc import Mapping

from cacheinf_ros.engine import Partition, PartitionSpace


def nearest(space: PartitionSpace, shares: Mapping[str, float]) -> Partition:
    """Return the possible partition that is nearest to these shares.

    Args:
        shares: by the operator's output, the share of its rows that the robot computes.
    """
    rows = {name: round(shares[name] * height) for name, height in space.heights.items()}
    for group in space.groups:
        is_at_robot = sum(shares[name] for name in group) >= len(group) / 2
        rows.update({name: space.heights[name] if is_at_robot else 0 for name in group})
    return Partition(robot_rows=rows)
