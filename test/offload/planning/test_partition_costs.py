# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of operators' costs for schedules, including maps that are computed anew."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import graph_of
from torch import nn

from cacheinf_ros.engine.cost.model import CostModel, Curve
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.partition.partition import PartitionSpace
from cacheinf_ros.offload.planning import profile


def test_maps_that_are_not_kept_are_paid_for_by_who_reads_them() -> None:
    """By hand: a takes 1 ms for all of its pixels, b 2 ms, in proportion; c has a window of 3 and takes 4 ms.

    If b, whose window is one pixel, is not kept, c also pays for computing b in its halo. Of 40 x 40 pixels a hundredth
    is 4 x 4 in the middle, for which c makes 6 x 6 and reads 8 x 8 of b: 36 of 1600 pixels cost 64 of 1600 of b.
    """
    layout = lay_out(
        graph_of(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 3, padding=1)), (40, 40))
    )
    _, a, b, c = PartitionSpace(layout).shapes
    shares = np.array([0.01, 0.05, 0.2, 0.5, 1.0])
    cost = CostModel(curves={name: Curve(rows=tuple(us * shares)) for name, us in ((a, 1e3), (b, 2e3), (c, 4e3))})
    apart = profile(layout, PartitionSpace(layout), cost)
    assert np.allclose(apart[:, -1], [1, 2, 4])
    together = profile(layout, PartitionSpace(layout, [b]), cost)
    assert np.allclose(together[0], apart[0])
    assert np.allclose(together[1, [0, -1]], [0, 6])
    # at 0.01 between nothing and 36 of 1600 pixels, where b takes 64 of 1600 of its 2 ms
    assert together[1, 1] == pytest.approx(0.04 + 2 * 64 / 1600 * 0.01 / (36 / 1600))
