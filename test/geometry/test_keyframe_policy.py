# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of keyframes: how far a camera has left them, what they show of the world, and when they are replaced."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.geometry import Brush, Drift, KeyframePolicy, KeyframeWindow
from cacheinf_ros.geometry.keyframe_policy import CACHED, COMPARED

Image = NDArray[np.uint8]
SIZE = (48, 64)
shifts = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=4, max_size=8)


def world(seed: int) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (300, 300, 3), dtype=np.uint8)


def window(picture: Image, at: tuple[int, int]) -> Image:
    """Return what a camera with its upper left corner at (x, y) sees."""
    x, y = at[0] + 100, at[1] + 100
    return np.ascontiguousarray(picture[y : y + SIZE[0], x : x + SIZE[1]])


@given(moves=shifts, seed=st.integers(0, 99))
def test_all_of_the_keyframe_that_was_seen_shows_the_world(moves: list[tuple[int, int]], seed: int) -> None:
    picture, at = world(seed), (0, 0)
    keyframe, composed = KeyframeWindow(SIZE, (8, 8)), window(picture, at)
    origin, seen = (0, 0), np.ones(SIZE, bool)  # of the keyframe in the world; which of it any frame has shown
    for dx, dy in moves:
        at = (at[0] - dx, at[1] - dy)
        shift = keyframe.follow(Motion.translation(dx, dy))
        assert shift is not None
        if any(shift):
            origin = (origin[0] - shift[0], origin[1] - shift[1])
            composed = np.roll(composed, shift[::-1], axis=(0, 1))
            seen = _rolled(seen, shift)
        composed = np.ascontiguousarray(composed)
        Brush(SIZE).paint(window(picture, at), np.zeros(SIZE, np.uint8), keyframe.motion, composed, keyframe.unseen)
        keyframe.painted()
        assert np.allclose(keyframe.motion.matrix, Motion.translation(origin[0] - at[0], origin[1] - at[1]).matrix)
        seen |= _rolled(np.ones(SIZE, bool), (at[0] - origin[0], at[1] - origin[1]))
        assert np.array_equal(composed[seen], window(picture, origin)[seen])
        assert max(map(abs, Drift.of(keyframe.motion, SIZE).shift)) <= 6


def _rolled(mask: NDArray[np.bool_], shift: tuple[int, int]) -> NDArray[np.bool_]:
    """Move a mask by (dx, dy); what enters is not set."""
    matrix = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float64)
    return cv2.warpAffine(mask.astype(np.uint8), matrix, SIZE[::-1], flags=cv2.INTER_NEAREST).astype(bool)


def test_a_camera_that_got_too_far_starts_anew() -> None:
    zoom = Motion(matrix=np.diag([1.02, 1.02, 1.0]))
    keyframe = KeyframeWindow(SIZE, (8, 8))
    assert keyframe.follow(zoom) is not None
    assert keyframe.follow(zoom) is not None
    assert keyframe.follow(zoom) is None
    assert KeyframeWindow(SIZE, None).follow(Motion.translation(9, 0)) is None
    assert KeyframeWindow(SIZE, (8, 8)).follow(Motion.translation(64, 0)) is None


ZOOM = Motion(matrix=np.diag([1.02, 1.02, 1.0]))


def test_drift_separates_shift_from_distortion() -> None:
    shifted = Drift.of(Motion.translation(3, -4), (481, 641))
    assert (shifted.shift, shifted.distortion) == ((3.0, -4.0), pytest.approx(0))
    middle = Motion.translation(320, 240)
    zoomed = Drift.of(middle.inverse().then(ZOOM).then(middle), (481, 641))
    assert zoomed.shift == pytest.approx((0, 0))
    assert zoomed.distortion == pytest.approx(0.01, rel=0.01)  # corners are half a diagonal away: 0.02 of it


@pytest.mark.parametrize("policy", [CACHED, COMPARED])
def test_what_gets_behind_the_camera_starts_anew(policy: KeyframePolicy) -> None:
    matrix = np.eye(3)
    matrix[2, 0] = -2 / 63  # the middle is at infinity
    drift = Drift.of(Motion(matrix=matrix), SIZE)
    assert drift.distortion == math.inf and policy.starts_anew(drift, SIZE)
    keyframe = KeyframeWindow(SIZE, (8, 8), policy)
    assert keyframe.follow(Motion(matrix=matrix)) is None and keyframe.is_frame


def test_an_audit_may_allow_less() -> None:
    keyframe = KeyframeWindow(SIZE, (8, 8))
    keyframe.allow(0.1)
    assert keyframe.follow(ZOOM) is None
    keyframe.allow(1.0)
    assert keyframe.follow(ZOOM) is not None


def test_the_picture_compared_with_starts_anew_where_a_twentieth_is_out_of_view() -> None:
    size = (400, 400)
    assert not COMPARED.starts_anew_at(Motion.translation(10, 0), size, 10)  # one column of forty
    assert COMPARED.starts_anew_at(Motion.translation(30, 0), size, 10)
