# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Pictures come out of messages as they went in."""

import array
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.errors import MOST_CHARACTERS, MessageError
from cacheinf_ros.sources import decode_image

# encoding, less its number of bits -> what a driver sends for a BGR picture
TO_WIRE = {
    "bgr{}": lambda image: image,
    "{}UC3": lambda image: image,
    "rgb{}": lambda image: image[:, :, ::-1],
    "bgra{}": lambda image: np.dstack([image, image[:, :, 0]]),
    "{}UC4": lambda image: np.dstack([image, image[:, :, 0]]),
    "rgba{}": lambda image: np.dstack([image[:, :, ::-1], image[:, :, 0]]),
}
BAYER = [f"bayer_{pattern}{bits}" for pattern in ("rggb", "bggr", "gbrg", "grbg") for bits in (8, 16)]
YUV = ["yuv422", "uyvy", "yuv422_yuy2", "yuyv", "nv12", "nv21", "nv24"]
GREY = ["mono8", "mono16", "8UC1", "16UC1"]
PICTURES = [name.format(bits) for name in TO_WIRE for bits in (8, 16)] + BAYER + YUV + GREY
# encoding -> what the refusal calls it
REFUSED = {
    **{f"{bits}SC{n}": "an image of signed numbers" for bits in (8, 16, 32) for n in range(1, 5)},
    **{f"{bits}FC{n}": "a depth or float image" for bits in (32, 64) for n in range(1, 5)},
    **{f"{bits}UC2": "an image of two channels" for bits in (8, 16)},
}


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def padded(rows: np.ndarray, padding: int, whole_last_row: bool) -> tuple[int, bytes]:
    """Return the step and the bytes of rows that are padded; the last row may lack its padding."""
    wide = np.pad(rows, ((0, 0), (0, padding)), constant_values=99)
    return wide.shape[1], wide.tobytes()[: wide.size if whole_last_row else wide.size - padding]


COLOURS = {
    "name": st.sampled_from(sorted(TO_WIRE)), "height": st.integers(1, 9), "width": st.integers(1, 9),
    "padding": st.integers(0, 5),
}  # fmt: skip


@given(**COLOURS, whole_last_row=st.booleans())
def test_colour_round_trip_with_padded_rows(name, height, width, padding, whole_last_row):
    image = picture(height, width)
    step, data = padded(TO_WIRE[name](image).reshape(height, -1), padding, whole_last_row)
    decoded = decode_image(name.format(8), height, width, step, data)
    assert decoded.dtype == np.uint8 and decoded.flags.c_contiguous
    np.testing.assert_array_equal(decoded, image)


@given(**COLOURS, is_bigendian=st.booleans())
def test_colour_of_16_bits_keeps_the_upper_byte(name, height, width, padding, is_bigendian):
    image = picture(height, width)
    wire = TO_WIRE[name](image)
    lower = np.random.default_rng(1).integers(0, 256, wire.shape)
    rows = (wire * np.uint16(256) + lower).astype(">u2" if is_bigendian else "<u2").reshape(height, -1).view(np.uint8)
    step, data = padded(rows, padding, True)
    decoded = decode_image(name.format(16), height, width, step, data, is_bigendian)
    assert decoded.dtype == np.uint8 and decoded.flags.c_contiguous
    np.testing.assert_array_equal(decoded, image)


@pytest.mark.parametrize("encoding", ["bgr8", "8UC3"])
def test_bgr_without_padding_is_a_view(encoding):
    data = bytearray(picture(3, 4).tobytes())
    decoded = decode_image(encoding, 3, 4, 12, data)
    assert np.shares_memory(decoded, np.frombuffer(data, np.uint8)) and not decoded.flags.writeable


@pytest.mark.parametrize("encoding", ["mono8", "8UC1"])
def test_mono_becomes_grey(encoding):
    grey = picture(4, 5)[:, :, 0]
    decoded = decode_image(encoding, 4, 5, 5, grey.tobytes())
    np.testing.assert_array_equal(decoded, np.dstack([grey] * 3))


@pytest.mark.parametrize("encoding", ["mono16", "16UC1"])
@pytest.mark.parametrize("is_bigendian", [False, True])
def test_mono16_keeps_the_upper_byte(encoding, is_bigendian):
    values = np.array([[0, 255, 256], [0x1234, 0xABCD, 0xFFFF]], ">u2" if is_bigendian else "<u2")
    decoded = decode_image(encoding, 2, 3, 6, values.tobytes(), is_bigendian)
    np.testing.assert_array_equal(decoded[:, :, 1], [[0, 0, 1], [0x12, 0xAB, 0xFF]])


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, lambda b: array.array("B", b), lambda b: np.frombuffer(b, np.uint8)]
)
def test_any_buffer_will_do(wrap):
    image = picture(3, 4)
    np.testing.assert_array_equal(decode_image("bgr8", 3, 4, 12, wrap(image.tobytes())), image)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("yuv9", 2, 2, 4, b"12345678"), "'yuv9' is not supported; publish one of bgr8"),
        (("mono8", 0, 2, 2, b""), "0 x 2 pixels is empty"),
        (("bgr8", 2, 2, 5, b"1234567890"), "step 5 is shorter than a row of 2 pixels"),
        (("bgr8", 2, 2, 6, b"12345678901"), "11 bytes are too few for 2 rows of step 6"),
        (("nv12", 2, 2, 2, b"12345"), "5 bytes are too few for 2 rows of step 2 as nv12"),
        (("nv12", 3, 2, 2, bytes(99)), "nv12 needs an even height and width, this image has 3 x 2 pixels"),
        (("nv21", 2, 3, 3, bytes(99)), "nv21 needs an even height and width, this image has 2 x 3 pixels"),
        (("yuyv", 2, 3, 6, bytes(99)), "yuyv needs an even width, this image has 2 x 3 pixels"),
        (("bayer_rggb8", 2, 9, 9, bytes(99)), "bayer_rggb8 needs 3 x 3 pixels or more, this image has 2 x 9"),
    ],
)
def test_contradictions_are_named(arguments, complaint):
    with pytest.raises(MessageError, match=complaint):
        decode_image(*arguments)


def test_an_encoding_of_megabytes_is_not_repeated_whole():
    with pytest.raises(MessageError, match=r"'xxxxx.* is not supported; publish one of bgr8") as caught:
        decode_image("x" * 5_000_000, 2, 2, 6, bytes(12))
    assert len(str(caught.value)) < MOST_CHARACTERS


@pytest.mark.parametrize("encoding", sorted(REFUSED))
def test_what_is_no_camera_picture_is_refused_by_name(encoding):
    complaint = f"{encoding} is {REFUSED[encoding]}, not a camera picture; publish .* bgr8, rgb8 or mono8"
    with pytest.raises(MessageError, match=complaint):
        decode_image(encoding, 2, 2, 64, bytes(128))


def test_the_refusal_of_an_unknown_encoding_lists_all_that_are_supported():
    with pytest.raises(MessageError) as caught:
        decode_image("yuv9", 2, 2, 4, b"12345678")
    assert sorted(str(caught.value).partition("publish one of ")[2].split(", ")) == sorted(PICTURES)


def test_every_encoding_of_ros_is_known():
    header = next(Path(sys.prefix).glob("**/sensor_msgs/image_encodings.hpp"), None)
    if header is None:
        pytest.skip("needs ros-sensor-msgs")
    assert set(re.findall(r'const char \w+\[\] = "(\w+)";', header.read_text())) == {*PICTURES, *REFUSED}


@pytest.mark.parametrize("encoding", sorted(PICTURES))
def test_sizes_beyond_the_data_are_refused_before_anything_is_allocated(encoding):
    for height, width, step in [(2**31, 2**28, 2**31), (2, 2**28, 2**31), (2**31, 4, 32)]:
        with pytest.raises(MessageError, match=r"64 bytes are too few|needs 3 x 3 pixels"):
            decode_image(encoding, height, width, step, bytes(64))


@given(
    encoding=st.sampled_from([*PICTURES, *REFUSED]),
    height=st.integers(0, 6),
    width=st.integers(0, 6),
    step=st.integers(0, 50),
    length=st.integers(0, 300),
)
def test_any_fields_give_a_picture_or_a_message_error(encoding, height, width, step, length):
    try:
        decoded = decode_image(encoding, height, width, step, bytes(length))
    except MessageError:
        return
    assert decoded.shape == (height, width, 3) and decoded.dtype == np.uint8 and encoding in PICTURES
