# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames are painted into pictures through a motion."""

from __future__ import annotations

import cv2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import textured

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.geometry.painting import Brush
from cacheinf_ros.geometry.warping import look_through

SIZE = (50, 70)
shears = st.floats(-0.05, 0.05)


@st.composite
def motions(draw: st.DrawFn) -> Motion:
    matrix = np.eye(3) + [[draw(shears), draw(shears), draw(st.floats(-20, 20))] for _ in range(3)]
    matrix[2] = draw(st.floats(-1e-3, 1e-3)), draw(st.floats(-1e-3, 1e-3)), 1
    return Motion(matrix=matrix)


def _marked(seed: int, share: float) -> NDArray[np.uint8]:
    blocks = np.random.default_rng(seed).random((10, 14)) < share
    return np.kron(blocks, np.ones((5, 5), np.uint8)).astype(np.uint8)


@given(motion=motions(), seed=st.integers(0, 99), share=st.sampled_from([0.01, 0.1, 0.9]))
def test_what_is_painted_is_the_frame_seen_through_the_motion(motion: Motion, seed: int, share: float) -> None:
    frame, picture = textured(seed, *SIZE, blur=1.0), np.zeros((*SIZE, 3), np.uint8)
    painted = Brush(SIZE).paint(frame, _marked(seed, share), motion, picture).view(np.bool_)
    assert not picture[~painted].any()
    # places are rounded to parts of a pixel: two ways to compute them may differ by one
    deviation = np.abs(picture[painted].astype(int) - look_through(frame, motion)[painted])
    assert deviation.max(initial=0) <= 16
    assert (deviation > 1).sum() <= 0.02 * deviation.size + 6  # two pixels: few may be painted in all


@given(motion=motions(), seed=st.integers(0, 99), share=st.sampled_from([0.01, 0.1, 0.9]))
def test_all_that_shows_anything_marked_is_painted(motion: Motion, seed: int, share: float) -> None:
    marked = _marked(seed, share)
    painted = Brush(SIZE).paint(textured(0, *SIZE), marked, motion, np.zeros((*SIZE, 3), np.uint8))
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    shown = cv2.warpPerspective(255 * marked, motion.matrix, SIZE[::-1], flags=flags)
    assert painted[shown > 16].all()  # less of a weight may be rounded away
    shown = shown > 0
    assert not (cv2.dilate(shown.view(np.uint8), np.ones((3, 3))) < painted).any()


@given(dx=st.integers(-80, 80), dy=st.integers(-60, 60), seed=st.integers(0, 99))
def test_whole_pixels_are_copied(dx: int, dy: int, seed: int) -> None:
    frame, marked = textured(seed, *SIZE), _marked(seed, 0.2)
    picture = np.zeros_like(frame)
    painted = Brush(SIZE).paint(frame, marked, Motion.translation(dx, dy), picture)
    expected = {(y - dy, x - dx) for y, x in np.argwhere(marked) if 0 <= y - dy < SIZE[0] and 0 <= x - dx < SIZE[1]}
    assert {tuple(place) for place in np.argwhere(painted).tolist()} == expected
    for y, x in expected:
        assert np.array_equal(picture[y, x], frame[y + dy, x + dx])


def test_what_was_never_seen_is_painted_until_the_frame_shows_it() -> None:
    frame, unseen = textured(3, *SIZE), np.zeros(SIZE, np.uint8)
    unseen[:, :10] = 1
    picture = np.zeros_like(frame)
    painted = Brush(SIZE).paint(frame, np.zeros(SIZE, np.uint8), Motion.translation(-4, 0), picture, unseen)
    assert painted[:, :10].all() and not painted[:, 10:].any()
    assert np.array_equal(picture[:, 4:10], frame[:, :6])
    assert (picture[:, :4] == frame[:, :1]).all()  # the border, continued
    assert unseen[:, :4].all() and not unseen[:, 4:].any()


def test_a_grey_picture_has_one_channel() -> None:
    frame, picture = textured(4, *SIZE)[:, :, 0].copy(), np.zeros(SIZE, np.uint8)
    painted = Brush(SIZE).paint(frame, np.ones(SIZE, np.uint8), Motion.translation(1, 1), picture)
    assert np.array_equal(picture[:-1, :-1], frame[1:, 1:])
    assert painted[:-1, :-1].all()
