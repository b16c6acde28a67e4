# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of motions between frame, input and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lowered import graph_of
from networks.shared_models import small_scenenet

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.following import (
    in_input,
    move_boxes,
    move_class_map,
    move_map,
    move_output,
    shift_output,
    shift_unit,
)

ZOOM = Motion(matrix=np.diag([1.02, 1.02, 1.0]))


@st.composite
def homographies(draw: st.DrawFn) -> Motion:
    numbers = [draw(st.floats(-1, 1)) for _ in range(8)]
    scale = np.array([0.05, 0.05, 9, 0.05, 0.05, 9, 1e-4, 1e-4])
    return Motion(matrix=np.eye(3) + np.append(numbers * scale, 0).reshape(3, 3))


def test_a_shift_of_the_frame_is_half_of_it_in_an_input_of_half_the_size() -> None:
    moved = in_input(Motion.translation(4, 2), (480, 640), (240, 320))
    assert moved.shift == pytest.approx((2, 1))


@given(motion=homographies())
def test_input_and_frame_agree_on_where_a_point_goes(motion: Motion) -> None:
    frame, size = (48, 64), (96, 32)
    moved = in_input(motion, frame, size)
    point = np.array([10.0, 20.0])  # pixels of the frame, centres at whole numbers
    there = _applied(motion, point)
    scale = np.array([size[1] / frame[1], size[0] / frame[0]])
    assert np.allclose(_applied(moved, (point + 0.5) * scale - 0.5), (there + 0.5) * scale - 0.5)
    assert np.allclose(in_input(moved, size, frame).matrix, motion.matrix / motion.matrix[2, 2])


def _applied(motion: Motion, point: np.ndarray) -> np.ndarray:
    x, y, w = motion.matrix @ np.append(point, 1)
    return np.array([x / w, y / w])


def test_boxes_move_and_grow_with_the_picture() -> None:
    boxes = np.array([[10, 20, 30, 40]], np.float32)
    assert move_boxes(boxes, Motion.translation(5, -5)).tolist() == [[15, 15, 30, 40]]
    doubled = Motion(matrix=np.diag([2.0, 2.0, 1.0]))
    assert move_boxes(boxes, doubled) == pytest.approx(2 * boxes)
    assert move_boxes(boxes[:0], doubled).shape == (0, 4)


def test_maps_move_at_their_own_scale() -> None:
    values = np.arange(2 * 6 * 8, dtype=np.float32).reshape(1, 2, 6, 8)
    motion = Motion.translation(8, -4)  # of an input four times as large: 2 to the right, 1 up
    moved = move_map(values, motion, (24, 32))
    assert moved[:, :, :5, 2:] == pytest.approx(values[:, :, 1:, :-2], abs=1e-4)
    assert np.allclose(shift_output(values, (8, -4), (24, 32))[:, :, :5, 2:], values[:, :, 1:, :-2])
    classes = values[0, 0].astype(np.uint8)
    assert np.array_equal(move_class_map(classes, motion, (24, 32))[:5, 2:], classes[1:, :-2])


@given(
    dtype=st.sampled_from(["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]),
    motion=homographies(),
    seed=st.integers(0, 2**32 - 1),
)
def test_maps_of_every_type_move_and_keep_their_type(dtype: str, motion: Motion, seed: int) -> None:
    """Whole numbers may be classes: none is moved that was not there, nor to where its neighbours are not."""
    values = np.random.default_rng(seed).integers(0, 2, (1, 2, 24, 32)).astype(dtype)
    moved, smooth = (move_output(each, motion, (48, 64)) for each in (values, values.astype(np.float32)))
    assert (moved.dtype, moved.shape) == (values.dtype, values.shape)
    if values.dtype.kind == "f":
        assert np.allclose(moved, smooth, atol=1e-3)
    else:
        alike = np.abs(smooth - np.rint(smooth)) < 0.2  # the nearest pixel has most of the weight
        assert np.array_equal(moved[alike], np.rint(smooth[alike]).astype(dtype))


def test_whole_numbers_move_as_class_maps_do() -> None:
    classes = np.random.default_rng(0).integers(0, 19, (1, 1, 24, 32))
    for motion in (Motion.translation(8, -4), Motion.translation(-6, 2), ZOOM):
        expected = move_class_map(classes[0, 0].astype(np.uint8), motion, (48, 64))
        assert np.array_equal(move_output(classes, motion, (48, 64))[0, 0], expected)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_maps_without_channels_move_like_others(dtype: str) -> None:
    """Depths and classes of pixels are often [1, height, width]; they stayed where the keyframe had them."""
    values = np.random.default_rng(0).integers(0, 9, (1, 6, 8)).astype(dtype)
    for motion in (Motion.translation(8, -4), ZOOM):
        assert np.array_equal(move_output(values, motion, (24, 32)), move_output(values[None], motion, (24, 32))[0])
    assert np.array_equal(shift_output(values, (8, -4), (24, 32))[0, :5, 2:], values[0, 1:, :-2])


@pytest.mark.parametrize("shape", [(1, 5), (1, 7, 5), (1, 1, 1), (1, 3, 1, 1), (2, 24, 32)])
def test_what_is_no_map_stays(shape: tuple[int, ...]) -> None:
    values = np.ones(shape, np.float32)
    assert move_output(values, ZOOM, (24, 32)) is values
    assert shift_output(values, (8, 8), (24, 32)) is values


def test_the_unit_is_the_coarsest_maps_pixel() -> None:
    assert shift_unit(small_scenenet().graph) == (8, 8)
    convolutions = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.Conv2d(4, 4, 3, 2, 1))
    assert shift_unit(graph_of(convolutions, (32, 48))) == (4, 4)
    assert shift_unit(graph_of(convolutions, (33, 48))) is None  # 17 rows do not divide 33
    assert shift_unit(graph_of(torch.nn.Conv2d(3, 4, 3, padding=1), (1, 1))) is None


def test_what_resamples_unevenly_has_no_unit() -> None:
    aligned = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    )
    even = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.Upsample(scale_factor=2, mode="bilinear"))
    assert shift_unit(graph_of(aligned, (32, 48))) is None
    assert shift_unit(graph_of(even, (32, 48))) == (2, 2)


def test_kernels_that_do_not_read_where_their_output_lies_have_no_unit() -> None:
    def unit(**options: Any) -> tuple[int, int] | None:
        return shift_unit(graph_of(torch.nn.Sequential(torch.nn.Conv2d(3, 4, **options)), (32, 48)))

    assert unit(kernel_size=4, padding="same") == unit(kernel_size=3, padding=2, dilation=2) == (1, 1)
    assert unit(kernel_size=(3, 4), padding="same", dilation=2) is None  # reads 3 and 1 pixels to the left and right
    assert unit(kernel_size=4, padding=(1, 1), stride=2) == unit(kernel_size=1, stride=2) == (2, 2)
    assert unit(kernel_size=(17, 25)) is None  # half as many outputs, side by side: they move as far as the input
