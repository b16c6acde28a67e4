# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Pictures come out of compressed messages as they went in, and pixels that a file only claims take no memory."""

import resource
import struct

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.errors import MOST_CHARACTERS, MessageError
from cacheinf_ros.sources import decode_compressed, decode_image

BAYER = [f"bayer_{pattern}{bits}" for pattern in ("rggb", "bggr", "gbrg", "grbg") for bits in (8, 16)]


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def jpeg(height: int = 16, width: int = 16) -> bytes:
    return cv2.imencode(".jpg", picture(height, width))[1].tobytes()


def with_exif(data: bytes, orientation: int) -> bytes:
    """Add an EXIF tag that asks to rotate the JPEG, with a thumbnail's frame header inside of the EXIF data."""
    entry = struct.pack("<HHIHH", 0x112, 3, 1, orientation, 0)
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + bytes(4) + jpeg(8, 8)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]


def claiming(data: bytes, height: int, width: int) -> bytes:
    """Return the file with another size in its header."""
    if data.startswith(b"\xff\xd8"):
        at = data.rindex(b"\xff\xc0") + 5
        return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]
    return data[:16] + struct.pack(">II", width, height) + data[24:]


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


@pytest.mark.parametrize(
    ("description", "is_rgb_as_bgr"),
    [
        ("", False),
        ("png", False),
        ("rgb8", False),
        ("rgb8; png compressed bgr8", False),
        ("bgr8; png compressed bgr8", False),
        ("yuv422_yuy2; png compressed bgr8", False),
        ("bgr8; tiff compressed ", False),
        ("rgb8; tiff compressed ", True),
        ("rgba8; tiff compressed", True),
        ("rgb8; png compressed rgb8", True),
    ],
)
def test_compressed_by_image_transport_comes_in_bgr(description, is_rgb_as_bgr):
    image = picture(6, 7)
    given_to_opencv = image[:, :, ::-1] if is_rgb_as_bgr else image
    data = cv2.imencode(".tiff" if "tiff" in description else ".png", given_to_opencv)[1].tobytes()
    np.testing.assert_array_equal(decode_compressed(data, description), image)


@pytest.mark.parametrize("encoding", ["mono16", "16UC1"])
def test_compressed_grey_of_16_bits_keeps_the_upper_byte(encoding):
    values = np.array([[0, 255, 256], [0x1234, 0xABCD, 0xFFFF]], np.uint16)
    decoded = decode_compressed(cv2.imencode(".png", values)[1].tobytes(), f"{encoding}; png compressed ")
    np.testing.assert_array_equal(decoded[:, :, 1], [[0, 0, 1], [0x12, 0xAB, 0xFF]])


@pytest.mark.parametrize("encoding", BAYER)
def test_a_compressed_mosaic_gets_its_colours(encoding):
    values = picture(6, 8)[:, :, 0].astype(np.uint16 if encoding.endswith("16") else np.uint8)
    data = cv2.imencode(".png", values * 257 if encoding.endswith("16") else values)[1].tobytes()
    expected = decode_image(f"{encoding.rstrip('168')}8", 6, 8, 8, values.astype(np.uint8))
    np.testing.assert_array_equal(decode_compressed(data, f"{encoding}; png compressed "), expected)
    grey = decode_compressed(data, f"{encoding}; jpeg compressed mono8")
    np.testing.assert_array_equal(grey, np.dstack([values.astype(np.uint8)] * 3))


@pytest.mark.parametrize(
    ("description", "complaint"),
    [
        ("16UC1; compressedDepth png", "format '16UC1; compressedDepth png' is a depth image; publish"),
        ("32FC1; compressedDepth rvl", "format '32FC1; compressedDepth rvl' is a depth image; publish"),
        ("32FC1; tiff compressed ", "32FC1 is a depth or float image, not a camera picture; publish"),
        ("8UC2; png compressed ", "8UC2 is an image of two channels, not a camera picture; publish"),
    ],
)
def test_compressed_depth_is_refused_by_name(description, complaint):
    with pytest.raises(MessageError, match=complaint):
        decode_compressed(cv2.imencode(".png", picture(2, 2))[1].tobytes(), description)


@pytest.mark.parametrize("start", ["", "compressedDepth"])
@pytest.mark.parametrize("data", [b"no picture", claiming(jpeg(), 30_000, 30_000)], ids=len)
def test_a_format_of_megabytes_is_not_repeated_whole(data, start):
    with pytest.raises(MessageError) as caught:
        decode_compressed(data, start + "x" * 5_000_000)
    assert len(str(caught.value)) < MOST_CHARACTERS


@pytest.mark.parametrize("kind", ["h264", "zstd"])
def test_other_compressions_are_refused_by_name(kind):
    with pytest.raises(MessageError, match=f"format '{kind}' and 40 bytes cannot be decoded; publish jpeg or png"):
        decode_compressed(b"\0\0\0\1" + bytes(36), kind)


def test_a_file_that_claims_too_many_pixels_is_refused():
    data = bytearray(cv2.imencode(".jpg", picture(16, 16))[1].tobytes())
    sizes = data.index(b"\xff\xc0") + 5  # start of frame: height, width
    data[sizes : sizes + 4] = b"\xff\xdc\xff\xdc"
    with pytest.raises(MessageError, match="cannot be decoded"):
        decode_compressed(bytes(data), "jpeg")


@pytest.mark.parametrize("description", ["jpeg", "bayer_rggb8; jpeg compressed bayer_rggb8"])
@pytest.mark.parametrize("kind", ["jpeg", "jpeg with a thumbnail", "png"])
def test_a_file_takes_no_memory_for_pixels_that_it_only_claims(kind, description):
    """Such a JPEG file of 631 bytes once took 2.7 GB."""
    data = cv2.imencode(".png", picture(16, 16))[1].tobytes() if kind == "png" else jpeg()
    data = claiming(with_exif(data, 1) if "thumbnail" in kind else data, 30_000, 30_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MessageError, match="claims 30000 x 30000 pixels and cannot be decoded: 33554432 are the most"):
        decode_compressed(data, description)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_a_note_to_turn_the_picture_is_not_followed(orientation):
    """Raw images have no such tag, and both transports must give the same frame."""
    plain = jpeg(16, 24)
    turned = with_exif(plain, orientation)
    assert cv2.imdecode(np.frombuffer(turned, np.uint8), cv2.IMREAD_COLOR).shape[:2] == (
        (24, 16) if orientation == 6 else (16, 24)
    )
    np.testing.assert_array_equal(decode_compressed(turned, "jpeg"), decode_compressed(plain, "jpeg"))


@given(st.binary(max_size=200), st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n"]))
def test_any_bytes_give_a_picture_or_a_message_error(data, start):
    try:
        assert decode_compressed(start + data, "jpeg").ndim == 3
    except MessageError as error:
        assert str(error)
