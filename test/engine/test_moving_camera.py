# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine follows a camera: it computes just what the cache stands for."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lowered import graph_of
from numpy.typing import NDArray
from oracle import assert_result_equals_dense
from random_graphs import random_network

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.graph import Model, ModelCard, load_model
from cacheinf_ros.sources.scenes import Gallery, load_photographs

Image = NDArray[np.uint8]
CONFIG = EngineConfig(mode=Mode.BOUNDED, dense_fallback=False)  # uncalibrated: holds nothing back
shifts = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=4, max_size=8)


def _followed(model: Model, moves: list[tuple[int, int]], seed: int) -> None:
    """The camera pans over a photograph while noise is seen in places; cached equals dense on what the cache holds."""
    rng = np.random.default_rng(seed)
    height, width = model.input_size
    photograph = np.asarray(cv2.resize(load_photographs(Gallery.TEST)[seed % 4], (width + 200, height + 200)), np.uint8)
    engine = Engine(model, CONFIG)
    x = y = 100
    engine.run(np.ascontiguousarray(photograph[y : y + height, x : x + width]), None)
    for dx, dy in moves:
        x, y = x - dx, y - dy
        frame = photograph[y : y + height, x : x + width].copy()
        grid = rng.random((-(-height // 8), -(-width // 8))) < 0.05
        active = np.kron(grid, np.ones((8, 8), bool))[:height, :width]
        frame[active] = rng.integers(0, 256, (int(active.sum()), 3))
        tilt = np.eye(3)
        tilt[0, 1] = rng.choice([0, 1e-3])  # between pixels now and then
        motion = Motion(matrix=tilt).then(Motion.translation(dx, dy))
        result = engine.run(frame, CacheMap.of_blocks(~grid, (height, width), 8, motion))
        assert_result_equals_dense(engine, result, engine.composed)


@pytest.mark.parametrize("name", ["scenenet", "torchvision:mobilenet_v2", "torchvision:efficientnet_b0"])
def test_networks_equal_dense_while_the_camera_moves(name: str) -> None:
    moves = [(3, 0), (3, 1), (9, -9), (9, 3), (-20, 0), (0, 30), (2, 2)]
    _followed(load_model(name, input_size=(96, 128)), moves, 1)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), moves=shifts)
@example(seed=898, moves=[(0, 0), (0, 0), (0, 0), (1, 0)])  # a dilated kernel of an even size
def test_random_networks_equal_dense_while_the_camera_moves(seed: int, moves: list[tuple[int, int]]) -> None:
    module = random_network(seed)
    card = ModelCard(name="random", input_size=module.input_size)
    _followed(Model(module=module, graph=graph_of(module, module.input_size), card=card), moves, seed)
