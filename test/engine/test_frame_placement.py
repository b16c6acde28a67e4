# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames with a margin in the model's input: their placement, and that the engine stays exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import assert_equals_dense, changed, dense

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode, Preprocessor
from cacheinf_ros.engine.frame_placement import Placement
from cacheinf_ros.graph import Model, ModelCard, load_model

sides = st.integers(8, 200)
SIZE = (96, 128)


def test_margins_are_those_of_ultralytics_and_yolox() -> None:
    wide = Placement.of((432, 768), (640, 640), "letterbox")
    assert (wide.size, wide.top, wide.left) == ((360, 640), 140, 0)
    odd = Placement.of((481, 640), (640, 640), "letterbox")  # 159 rows of margin, the odd one below
    assert (odd.size, odd.top) == ((481, 640), 79)
    corner = Placement.of((432, 768), (640, 640), "letterbox_corner")
    assert (corner.size, corner.top, corner.left) == ((360, 640), 0, 0)
    assert not Placement.of((432, 768), (640, 640), "stretch").has_margin


@given(image=st.tuples(sides, sides), size=st.tuples(sides, sides), corner=st.booleans())
def test_every_frame_fits_and_points_return(image: tuple[int, int], size: tuple[int, int], corner: bool) -> None:
    place = Placement.of(image, size, "letterbox_corner" if corner else "letterbox")
    rows, columns = place.content
    assert 0 <= rows.start < rows.stop <= size[0] and 0 <= columns.start < columns.stop <= size[1]
    corners = np.array([[columns.start, rows.start], [columns.stop, rows.stop]], np.float32)
    assert np.allclose(place.points_in_frame(corners), [[0, 0], [image[1], image[0]]], atol=1e-3)
    box = np.array([[columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start]], np.float32)
    assert np.allclose(place.boxes_in_frame(box), [[0, 0, image[1], image[0]]], atol=1e-3)


@given(turn=st.floats(-0.1, 0.1), dx=st.floats(-9, 9), dy=st.floats(-9, 9))
def test_frame_and_input_agree_on_where_a_point_goes(turn: float, dx: float, dy: float) -> None:
    matrix = np.array([[np.cos(turn), -np.sin(turn), dx], [np.sin(turn), np.cos(turn), dy], [1e-4, 0, 1]])
    place = Placement.of((90, 160), (128, 128), "letterbox")
    moved = place.in_input(Motion(matrix=matrix)).matrix

    def applied(motion: np.ndarray, point: np.ndarray) -> np.ndarray:
        x, y, w = motion @ np.append(point, 1)
        return np.array([x / w, y / w])

    def entered(point: np.ndarray) -> np.ndarray:  # pixels' centres are at whole numbers
        return (point + 0.5) * place.scale - 0.5 + (place.left, place.top)

    point = np.array([30.0, 40.0])
    assert np.allclose(applied(moved, entered(point)), entered(applied(matrix, point)))


def test_the_frame_is_in_the_middle_of_grey() -> None:
    preprocessor = Preprocessor(ModelCard(name="t", input_size=(64, 64), resize="letterbox"))
    resized = preprocessor.resize(np.full((32, 64, 3), 200, np.uint8))
    assert (resized[16:48] == 200).all() and (resized[:16] == 114).all() and (resized[48:] == 114).all()


@given(source=st.tuples(st.integers(8, 90), st.integers(8, 90)), seed=st.integers(0, 1000), span=st.integers(1, 20))
def test_only_what_depends_on_a_block_is_touched(source: tuple[int, int], seed: int, span: int) -> None:
    rng = np.random.default_rng(seed)
    preprocessor = Preprocessor(ModelCard(name="t", input_size=(48, 64), resize="letterbox"))
    image = rng.integers(0, 256, (*source, 3), dtype=np.uint8)
    y, x = rng.integers(0, source[0]), rng.integers(0, source[1])
    mask = np.zeros(source, bool)
    mask[y : y + span, x : x + span] = True
    differs = (preprocessor.resize(image) != preprocessor.resize(np.where(mask[:, :, None], 255 - image, image))).any(2)
    reach = preprocessor.taps_of_blocks(CacheMap.of_blocks(~mask, source, 1, Motion.none()))
    rows, columns = (
        (mask.any(axis)[taps] & (taps >= 0)).any(1) for axis, taps in ((1, reach.rows), (0, reach.columns))
    )
    assert not (differs & ~(rows[:, None] & columns[None])).any()


@pytest.fixture(scope="module")
def model() -> Model:
    loaded = load_model("networks.small:mixed", input_size=SIZE)
    return replace(loaded, card=loaded.card.changed(resize="letterbox"))


def test_exact_with_a_margin(model: Model) -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (90, 150, 3), dtype=np.uint8)
    engine = Engine(model, EngineConfig(mode=Mode.EXACT, threads=1, dense_fallback=False))
    assert_equals_dense(engine, image, None)
    for share in (0.02, 0.3, 0.0):
        image, cache_map = changed(image, 10, share, rng)
        assert_equals_dense(engine, image, cache_map)


def test_the_margin_stays_while_deepcache_moves_the_picture(model: Model) -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (96, 160, 3), dtype=np.uint8)
    engine = Engine(model, EngineConfig(mode=Mode.DEEPCACHE, threads=1, dense_fallback=False))
    engine.run(image, None)
    moved = np.roll(image, 20, axis=0)
    reusable = np.ones((10, 16), bool)
    reusable[:3] = reusable[-1] = False  # what came in, and the last, uneven row
    engine.run(moved, CacheMap.of_blocks(reusable, (96, 160), 10, Motion.translation(0, 20)))
    place = Preprocessor(model.card).place((96, 160))
    margin = np.ones(SIZE, bool)
    margin[place.content] = False
    assert margin.any() and (engine.composed[margin] == 114).all()


def test_bounded_mode_follows_the_camera_within_a_margin(model: Model) -> None:
    """Without calibration bounded mode is exact for its keyframe, and a camera that returns finds what it left."""
    rng = np.random.default_rng(0)
    wide = rng.integers(0, 256, (90, 170, 3), dtype=np.uint8)
    image, beside = wide[:, :150].copy(), wide[:, 10:160].copy()
    engine = Engine(model, EngineConfig(mode=Mode.BOUNDED, threads=1, dense_fallback=False))
    engine.run(image, None)
    grid = np.ones((9, 15), bool)
    away, back = grid.copy(), grid.copy()
    away[:, -2:] = False
    engine.run(beside, CacheMap.of_blocks(away, (90, 150), 10, Motion.translation(-10, 0)))
    result = engine.run(image, CacheMap.of_blocks(back, (90, 150), 10, Motion.translation(10, 0)))
    exact = dense(model, image)
    for ours, theirs in zip(result.outputs.values(), exact, strict=True):
        assert np.abs(ours - theirs).max() < 0.5 * theirs.std() + 1e-3
