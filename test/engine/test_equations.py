# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""CacheInf's equations 4 to 7, worked out by hand: the cache is read where the motion took its contents."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lowered import graph_of
from torch import nn

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.graph import Model, ModelCard

CONFIG = EngineConfig(mode=Mode.BOUNDED, dense_fallback=False)  # uncalibrated: holds nothing back


def test_equations_6_and_7_by_hand() -> None:
    """A window of 3 x 3 ones over 16 x 16 pixels, in which (u, v) held 10 u + v.

    The picture moves by two pixels to the right, and rows 4 and 5 of columns 4 and 5 become 100.
    """
    module = nn.Conv2d(3, 1, 3, bias=False)
    with torch.no_grad():
        module.weight.zero_()
        module.weight[0, 0] = 1.0
    card = ModelCard(name="sum", input_size=(16, 16), scale=1.0, mean=(0.0,) * 3, std=(1.0,) * 3)
    engine = Engine(Model(module=module, graph=graph_of(module, (16, 16)), card=card), CONFIG)
    u, v = np.mgrid[:16, :16]
    before = np.repeat((10 * u + v)[..., None], 3, axis=2).astype(np.uint8)
    dense = next(iter(engine.run(before, None).outputs.values())).copy()
    assert dense[0, 0, 3, 3] == 9 * 44  # the mean of the nine values is the middle one

    frame = np.roll(before, 2, axis=1)
    frame[4:6, 4:6] = 100
    reusable = np.ones((8, 8), bool)
    reusable[:, 0] = reusable[2, 2] = False  # what came into view, and what changed
    result = engine.run(frame, CacheMap.of_blocks(reusable, (16, 16), 2, Motion.translation(2, 0)))
    output = next(iter(result.outputs.values()))[0, 0]
    # (3, 3) reads rows and columns 3 to 5: four new values, and of the cache 31 32 33 / 41 / 51, two columns before
    assert output[3, 3] == pytest.approx(4 * 100 + 31 + 32 + 33 + 41 + 51)
    # (4, 4) reads 4 to 6: four new values, and 44 / 54 / 62 63 64
    assert output[4, 4] == pytest.approx(4 * 100 + 44 + 54 + 62 + 63 + 64)
    # (8, 8) reads nothing new: its output is the cached one of (8, 6), moved
    assert output[8, 8] == pytest.approx(dense[0, 0, 8, 6])
