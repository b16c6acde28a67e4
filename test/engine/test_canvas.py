# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine follows a camera: what the cache stands for, and that it computes just that."""

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

from cacheinf_ros.cache_map import CacheMap, Drift, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.engine.canvas import Canvas
from cacheinf_ros.geometry.painting import Brush
from cacheinf_ros.graph import Model, ModelCard, load_model
from cacheinf_ros.sources.scenes import Gallery, load_photographs

Image = NDArray[np.uint8]
SIZE = (48, 64)
CONFIG = EngineConfig(mode=Mode.BOUNDED, dense_fallback=False)  # uncalibrated: holds nothing back
shifts = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=4, max_size=8)


def world(seed: int) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (300, 300, 3), dtype=np.uint8)


def window(picture: Image, at: tuple[int, int]) -> Image:
    """What a camera sees whose upper left corner is at (x, y)."""
    x, y = at[0] + 100, at[1] + 100
    return np.ascontiguousarray(picture[y : y + SIZE[0], x : x + SIZE[1]])


@given(moves=shifts, seed=st.integers(0, 99))
def test_all_of_the_canvas_that_was_seen_shows_the_world(moves: list[tuple[int, int]], seed: int) -> None:
    picture, at = world(seed), (0, 0)
    canvas, composed = Canvas(SIZE, (8, 8)), window(picture, at)
    origin, seen = (0, 0), np.ones(SIZE, bool)  # of the canvas in the world; which of it any frame has shown
    for dx, dy in moves:
        at = (at[0] - dx, at[1] - dy)
        shift = canvas.follow(Motion.translation(dx, dy))
        assert shift is not None
        if any(shift):
            origin = (origin[0] - shift[0], origin[1] - shift[1])
            composed = np.roll(composed, shift[::-1], axis=(0, 1))
            seen = _rolled(seen, shift)
        composed = np.ascontiguousarray(composed)
        Brush(SIZE).paint(window(picture, at), np.zeros(SIZE, np.uint8), canvas.motion, composed, canvas.unseen)
        assert np.allclose(canvas.motion.matrix, Motion.translation(origin[0] - at[0], origin[1] - at[1]).matrix)
        seen |= _rolled(np.ones(SIZE, bool), (at[0] - origin[0], at[1] - origin[1]))
        assert np.array_equal(composed[seen], window(picture, origin)[seen])
        assert max(map(abs, Drift.of(canvas.motion, SIZE).shift)) <= 6


def _rolled(mask: NDArray[np.bool_], shift: tuple[int, int]) -> NDArray[np.bool_]:
    """Moved by (dx, dy); what enters is not set."""
    matrix = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float64)
    return cv2.warpAffine(mask.astype(np.uint8), matrix, SIZE[::-1], flags=cv2.INTER_NEAREST).astype(bool)


def test_a_camera_that_got_too_far_starts_anew() -> None:
    zoom = Motion(matrix=np.diag([1.02, 1.02, 1.0]))
    canvas = Canvas(SIZE, (8, 8))
    assert canvas.follow(zoom) is not None
    assert canvas.follow(zoom) is not None
    assert canvas.follow(zoom) is None
    assert Canvas(SIZE, None).follow(Motion.translation(9, 0)) is None
    assert Canvas(SIZE, (8, 8)).follow(Motion.translation(64, 0)) is None


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
