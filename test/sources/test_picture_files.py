# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Picture files from others: their headers are checked before they are decoded."""

from __future__ import annotations

import resource
import struct
import time
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheinf_ros.errors import MessageError
from cacheinf_ros.sources import decode_compressed, decode_picture
from cacheinf_ros.sources.picture_files import is_damaged, picture_size
from cacheinf_ros.sources.tiff_files import tiff_size

IMAGE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)


def encoded(kind: str) -> bytes:
    return bytes(cv2.imencode(f".{kind}", IMAGE)[1])


def announcing(kind: str, height: int, width: int) -> bytes:
    """Return a file whose header claims another size."""
    data = bytearray(encoded(kind))
    if kind == "png":
        at = data.index(b"IHDR")
        data[at + 4 : at + 12] = struct.pack(">II", width, height)
        data[at + 17 : at + 21] = struct.pack(">I", zlib.crc32(data[at : at + 17]))
    else:
        at = data.index(b"\xff\xc0")
        data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def turned(data: bytes) -> bytes:
    """Add an EXIF tag to a JPEG that asks for a quarter turn."""
    tags = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(tags) + 2) + tags + data[2:]


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_what_was_sent_comes_back(kind: str) -> None:
    assert picture_size(encoded(kind)) == IMAGE.shape[:2]
    image = decode_picture(encoded(kind))
    assert image.shape == IMAGE.shape
    assert kind == "jpg" or (image == IMAGE).all()
    with pytest.raises(MessageError, match="expected"):
        decode_picture(encoded(kind), (60, 40))


def test_marks_that_nothing_follows_do_not_hide_the_size() -> None:
    sound = encoded("jpg")
    assert picture_size(sound[:2] + b"\xff\xd0\xff\xff\x01" + sound[2:]) == IMAGE.shape[:2]


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_what_announces_too_much_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(MessageError, match="too large"):
        decode_picture(announcing(kind, 60_000, 60_000))


@pytest.mark.parametrize("decode", [decode_picture, decode_compressed])
def test_a_jpeg_too_short_for_its_size_takes_no_memory(decode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 1.6 kB that claimed 31 million pixels once took 235 MB."""
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(MessageError, match=r"cut off|cannot be decoded"):
        decode(announcing("jpg", 2631, 11976))


def test_an_arithmetic_jpeg_is_refused() -> None:
    with pytest.raises(MessageError, match="damaged"):
        decode_picture(encoded("jpg").replace(b"\xff\xc0", b"\xff\xc9"))


@given(
    st.integers(1, 300), st.integers(1, 300), st.booleans(), st.booleans(), st.booleans(),
    st.sampled_from([0x411111, 0x221111, 0x111111, 0x121111]), st.integers(0, 100), st.integers(0, 255),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_no_jpeg_is_too_short_for_a_picture_of_one_colour(
    height: int, width: int, is_grey: bool, progressive: bool, optimised: bool, sampling: int, quality: int, value: int
) -> None:
    """The shortest files that encoders write are not taken for cut ones, even without their headers."""
    image = np.full((height, width) if is_grey else (height, width, 3), value, np.uint8)
    how = {
        cv2.IMWRITE_JPEG_PROGRESSIVE: progressive,
        cv2.IMWRITE_JPEG_OPTIMIZE: optimised,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR: sampling,
        cv2.IMWRITE_JPEG_QUALITY: quality,
    }
    data = bytes(cv2.imencode(".jpg", image, [int(each) for pair in how.items() for each in pair])[1])
    assert decode_picture(data).shape == (height, width, 3)
    scan = data[data.index(b"\xff\xda") :]
    assert not is_damaged(b"\xff\xd8" + scan, (height, width))


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"\xff\xd8\xff\xc0\0", encoded("png")[:20], b"BM" + bytes(100)])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        decode_picture(data)


def test_no_picture_is_turned_as_its_tags_ask_for() -> None:
    assert cv2.imdecode(np.frombuffer(turned(encoded("jpg")), np.uint8), cv2.IMREAD_COLOR).shape == (60, 40, 3)
    assert decode_picture(turned(encoded("jpg"))).shape == IMAGE.shape
    assert decode_compressed(turned(encoded("jpg")), "jpeg").shape == IMAGE.shape


def test_a_chunk_that_claims_more_than_the_file_takes_no_memory() -> None:
    """OpenCV once kept tens of megabytes for each such file of 300 bytes."""
    whole = bytes(cv2.imencode(".png", IMAGE)[1])
    at = whole.index(b"IDAT") - 4
    for length in (0x7FFFFFFF, 0x04000000, len(whole)):
        lying = whole[:at] + struct.pack(">I", length) + whole[at + 4 :]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(20):
            with pytest.raises(MessageError, match="damaged PNG"):
                decode_picture(lying)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


@pytest.mark.parametrize("cut", [1, 12, 13, 40])
def test_a_png_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(MessageError, match="damaged PNG"):
        decode_picture(bytes(cv2.imencode(".png", IMAGE)[1])[:-cut])


def test_what_opencv_stumbles_over_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCV raises where there is no memory for the pixels."""

    def stumble(*_: object) -> None:
        raise cv2.error("Insufficient memory")

    monkeypatch.setattr(cv2, "imdecode", stumble)
    with pytest.raises(MessageError, match="cannot be decoded"):
        decode_picture(encoded("jpg"))


@pytest.mark.parametrize(
    ("start", "repeated", "end"),
    [
        ("jpg", b"\xff", b""),
        ("jpg", b"\xff", b"\xff\xc0"),
        ("jpg", b"\xff\xd0", b""),
        ("jpg", b"\xff\xe1\0\2", b"\xff\xc0"),
        ("jpg", b"\xff\0", b""),
        ("png", bytes(4) + b"tEXt" + bytes(4), b"\0\0"),
    ],
    ids=["fill bytes", "fill bytes before a header", "marks alone", "empty notes", "bytes of pixels", "empty chunks"],
)
def test_no_header_is_looked_for_all_day(start: str, repeated: bytes, end: bytes) -> None:
    """The scan for the header once took seconds."""
    sound, first = encoded(start), 2 if start == "jpg" else 33
    rest = sound[sound.index(end, first) :] if end else b""
    data = sound[:first] + repeated * (2**25 // len(repeated)) + rest
    started = time.thread_time()
    with pytest.raises(MessageError, match="damaged"):
        decode_picture(data)
    assert time.thread_time() - started < 0.5


def test_a_byte_of_pixels_before_any_header_is_damage() -> None:
    sound = encoded("jpg")
    with pytest.raises(MessageError, match="damaged"):
        decode_picture(sound[:2] + b"\xff\0" + sound[2:])


def test_a_large_png_in_many_small_chunks_is_sound() -> None:
    image = np.random.default_rng(0).integers(0, 256, (1700, 1700, 3), np.uint8)
    data = bytes(cv2.imencode(".png", image, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1])
    assert data.count(b"IDAT") > 1000 and (decode_picture(data) == image).all()


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_size_of_a_tiff_is_read_from_its_directory(order: str) -> None:
    entries = [(256, 3, 70), (257, 4, 50_000), (258, 3, 8)]
    fields = b"".join(
        struct.pack(f"{order}HHI", tag, kind, 1)
        + struct.pack(f"{order}{'HH' if kind == 3 else 'I'}", *((v, 0) if kind == 3 else (v,)))
        for tag, kind, v in entries
    )
    raw = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}IH", 8, len(entries)) + fields
    assert tiff_size(raw) == (50_000, 70)
    assert all(tiff_size(raw[:length]) is None for length in range(len(raw)))
    assert tiff_size(bytes(cv2.imencode(".tiff", IMAGE)[1])) == IMAGE.shape[:2]
