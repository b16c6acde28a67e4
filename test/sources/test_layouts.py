# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bayer mosaics and YUV are converted back to the colours that they were made of."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.sources import decode_image

BGR = {"b": 0, "g": 1, "r": 2}
PATTERNS = ["rggb", "bggr", "gbrg", "grbg"]


def mosaic(image: np.ndarray, pattern: str) -> np.ndarray:
    """Return for each pixel the channel that its filter lets through; the pattern is of the first 2 x 2 pixels."""
    seen = np.empty(image.shape[:2], np.uint8)
    for index, colour in enumerate(pattern):
        top, left = divmod(index, 2)
        seen[top::2, left::2] = image[top::2, left::2, BGR[colour]]
    return seen


def bgr_of_yuv(y: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Convert by ITU-R BT.601: 219 steps of Y from 16, 224 steps of U and V around 128."""
    luma, blue_luma, red_luma = (np.maximum(y, 16.0) - 16) / 219, (u - 128.0) / 112 * 0.886, (v - 128.0) / 112 * 0.701
    blue, red = luma + blue_luma, luma + red_luma
    green = (luma - 0.114 * blue - 0.299 * red) / 0.587
    return np.clip(np.dstack([blue, green, red]) * 255, 0, 255)


def side_by_side(*planes: np.ndarray) -> np.ndarray:
    """Return rows of bytes in which the planes' values alternate."""
    return np.dstack(planes).reshape(planes[0].shape[0], -1)


def packed(y: np.ndarray, u: np.ndarray, v: np.ndarray, *, luma_first: bool) -> list[np.ndarray]:
    colours = side_by_side(u[:, ::2], v[:, ::2])
    return [side_by_side(y, colours) if luma_first else side_by_side(colours, y)]


# encoding -> (rows and columns that share U and V, (Y, U, V) -> rows of the planes)
YUV = {
    "uyvy": ((1, 2), lambda y, u, v: packed(y, u, v, luma_first=False)),
    "yuv422": ((1, 2), lambda y, u, v: packed(y, u, v, luma_first=False)),
    "yuyv": ((1, 2), lambda y, u, v: packed(y, u, v, luma_first=True)),
    "yuv422_yuy2": ((1, 2), lambda y, u, v: packed(y, u, v, luma_first=True)),
    "nv12": ((2, 2), lambda y, u, v: [y, side_by_side(u[::2, ::2], v[::2, ::2])]),
    "nv21": ((2, 2), lambda y, u, v: [y, side_by_side(v[::2, ::2], u[::2, ::2])]),
    "nv24": ((1, 1), lambda y, u, v: [y, side_by_side(u, v)]),
}


def planes_as_message(planes: list[np.ndarray], padding: int) -> tuple[int, bytes]:
    """Return the step and bytes of planes with rows padded in proportion to their length, except the last row."""
    width = planes[0].shape[1]
    wide = [np.pad(p, ((0, 0), (0, padding * p.shape[1] // width)), constant_values=99) for p in planes]
    data = b"".join(p.tobytes() for p in wide)
    return wide[0].shape[1], data[: len(data) - padding * planes[-1].shape[1] // width]


@given(
    pattern=st.sampled_from(PATTERNS),
    bits=st.sampled_from([8, 16]),
    colour=st.tuples(*[st.integers(0, 255)] * 3),
    height=st.integers(3, 9),
    width=st.integers(3, 9),
    padding=st.integers(0, 5),
    is_bigendian=st.booleans(),
)
def test_a_mosaic_of_one_colour_has_that_colour(pattern, bits, colour, height, width, padding, is_bigendian):
    image = np.full((height, width, 3), colour, np.uint8)
    rows = mosaic(image, pattern)
    if bits == 16:
        rows = (rows * np.uint16(256) + 77).astype(">u2" if is_bigendian else "<u2").view(np.uint8)
    rows = np.pad(rows, ((0, 0), (0, padding)), constant_values=99)
    decoded = decode_image(f"bayer_{pattern}{bits}", height, width, rows.shape[1], rows.tobytes(), is_bigendian)
    np.testing.assert_array_equal(decoded, image)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_colours_of_a_mosaic_are_where_they_were(pattern):
    y, x = np.mgrid[0:48, 0:64]
    image = np.dstack([4 * x, 5 * y, 255 - 2 * x - 2 * y]).astype(np.uint8)
    decoded = decode_image(f"bayer_{pattern}8", 48, 64, 64, mosaic(image, pattern))
    inside = np.s_[1:-1, 1:-1]  # OpenCV repeats the second pixels at the border
    assert np.abs(decoded.astype(int) - image)[inside].max() <= 1


@given(
    encoding=st.sampled_from(sorted(YUV)),
    height=st.integers(1, 8),
    width=st.integers(1, 8),
    padding=st.sampled_from([0, 2, 6]),
    seed=st.integers(0, 99),
)
def test_yuv_has_the_colours_of_bt_601(encoding, height, width, padding, seed):
    (tall, wide), to_planes = YUV[encoding]
    height, width = height * tall, width * wide
    y, u, v = np.random.default_rng(seed).integers(0, 256, (3, height, width), np.uint8)
    u, v = (np.kron(c[::tall, ::wide], np.ones((tall, wide), np.uint8)) for c in (u, v))
    step, data = planes_as_message(to_planes(y, u, v), padding)
    decoded = decode_image(encoding, height, width, step, data)
    assert decoded.dtype == np.uint8 and decoded.flags.c_contiguous
    assert np.abs(decoded - bgr_of_yuv(y, u, v)).max() <= 1


@pytest.mark.parametrize("encoding", sorted(YUV))
@pytest.mark.parametrize(
    ("yuv", "bgr"),
    [
        ((16, 128, 128), (0, 0, 0)),
        ((235, 128, 128), (255, 255, 255)),
        ((81, 90, 240), (0, 0, 255)),
        ((145, 54, 34), (0, 255, 0)),
        ((41, 240, 110), (255, 0, 0)),
    ],
)
def test_named_colours(encoding, yuv, bgr):
    planes = YUV[encoding][1](*(np.full((4, 6), value, np.uint8) for value in yuv))
    step, data = planes_as_message(planes, 0)
    decoded = decode_image(encoding, 4, 6, step, data)
    assert np.abs(decoded.astype(int) - bgr).max() <= 2


@pytest.mark.parametrize("kind", ["nv12", "nv21", "nv24"])
def test_planes_may_be_longer_than_the_picture_takes(kind):
    y, u, v = (np.full((4, 6), value, np.uint8) for value in (81, 90, 240))
    step, data = planes_as_message(YUV[kind][1](y, u, v), 2)
    image = decode_image(kind, 4, 6, step, data)
    np.testing.assert_array_equal(decode_image(kind, 4, 6, step, data + bytes(4096)), image)
    assert cv2.absdiff(image, np.full((4, 6, 3), (0, 0, 255), np.uint8)).max() <= 2
