"""Pictures come out of messages as they went in."""

import array

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.errors import MessageError
from cacheinf_ros.sources import decode_compressed, decode_image

# encoding -> what a driver sends for a BGR picture
TO_WIRE = {
    "bgr8": lambda image: image,
    "8UC3": lambda image: image,
    "rgb8": lambda image: image[:, :, ::-1],
    "bgra8": lambda image: np.dstack([image, image[:, :, 0]]),
    "8UC4": lambda image: np.dstack([image, image[:, :, 0]]),
    "rgba8": lambda image: np.dstack([image[:, :, ::-1], image[:, :, 0]]),
}


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@given(
    encoding=st.sampled_from(sorted(TO_WIRE)),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    padding=st.integers(0, 5),
    whole_last_row=st.booleans(),
)
def test_colour_round_trip_with_padded_rows(encoding, height, width, padding, whole_last_row):
    image = picture(height, width)
    wire = TO_WIRE[encoding](image).reshape(height, -1)
    padded = np.pad(wire, ((0, 0), (0, padding)), constant_values=99)
    data = padded.tobytes() if whole_last_row else padded.tobytes()[: padded.size - padding]
    decoded = decode_image(encoding, height, width, padded.shape[1], data)
    assert decoded.dtype == np.uint8 and decoded.flags.c_contiguous
    np.testing.assert_array_equal(decoded, image)


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
    ],
)
def test_contradictions_are_named(arguments, complaint):
    with pytest.raises(MessageError, match=complaint):
        decode_image(*arguments)


def test_compressed_round_trip():
    image = picture(6, 7)
    np.testing.assert_array_equal(decode_compressed(cv2.imencode(".png", image)[1].tobytes(), "png"), image)
    smooth = cv2.GaussianBlur(np.tile(np.arange(64, dtype=np.uint8)[:, None, None], (1, 64, 3)), (0, 0), 3)
    decoded = decode_compressed(cv2.imencode(".jpg", smooth)[1].tobytes(), "bgr8; jpeg compressed bgr8")
    assert np.abs(decoded.astype(int) - smooth).max() <= 4


@pytest.mark.parametrize("data", [b"", b"not a picture"])
def test_compressed_rubbish_is_refused(data):
    with pytest.raises(MessageError, match=r"format 'jpeg' and .* cannot be decoded; publish jpeg or png"):
        decode_compressed(data, "jpeg")
