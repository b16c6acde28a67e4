# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""TIFF files from image_transport are read, but none for which OpenCV would take more memory than the picture."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import pytest

from cacheinf_ros.errors import MessageError
from cacheinf_ros.sources import decode_compressed
from cacheinf_ros.sources.tiff_files import tiff_size

IMAGE = np.random.default_rng(0).integers(0, 256, (64, 48, 3), np.uint8)
WIDE = 32752
SHORT, LONG, LONG8 = 3, 4, 16
GREY = {256: 48, 257: 64, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 64, 279: 64 * 48}
TILED = {322: 48, 323: 64, 324: 8, 325: 64 * 48}


def tiff(tags: dict[int, int], *more: tuple[int, int, int, int]) -> bytes:
    """Return a grey picture with these tags, and further entries of (tag, type, count, value)."""
    pixels = IMAGE[:, :, 0].tobytes()
    entries = sorted([(tag, LONG, 1, value) for tag, value in tags.items()] + list(more))
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)
    return b"II*\0" + struct.pack("<I", 8 + len(pixels)) + pixels + directory


def without(tag: int) -> dict[int, int]:
    return {each: value for each, value in GREY.items() if each != tag}


@pytest.mark.parametrize("image", [IMAGE, IMAGE[:, :, 0], IMAGE * np.uint16(257)], ids=["colours", "grey", "16 bits"])
def test_what_image_transport_writes_is_read(image: np.ndarray) -> None:
    data = cv2.imencode(".tiff", image)[1].tobytes()
    assert tiff_size(data) == IMAGE.shape[:2]
    assert decode_compressed(data, "bgr8; tiff compressed bgr8").shape == IMAGE.shape


@pytest.mark.parametrize("rows", [64, 2**32 - 1])
def test_one_strip_may_hold_all_rows(rows: int) -> None:
    assert (decode_compressed(tiff({**GREY, 278: rows}), "tiff")[:, :, 0] == IMAGE[:, :, 0]).all()


@pytest.mark.parametrize(
    "data",
    [
        tiff({**without(278), **TILED, 322: WIDE, 323: WIDE}),
        tiff({**without(278), **TILED}),
        tiff({**GREY, 278: 2**25}),
        tiff({**GREY, 277: 65535}),
        tiff({**GREY, 258: 64}),
        tiff({**GREY, 259: 7}),
        tiff(GREY, (256, LONG, 1, WIDE)),
        tiff(without(256), (256, LONG8, 1, 48)),
        tiff(without(256), (256, SHORT, 2, WIDE << 16 | 48)),
        b"II+\0" + tiff(GREY)[4:],  # BigTIFF
        tiff(without(258), (258, SHORT, 60000, 8)),
        tiff(without(258), (258, SHORT, 3, 2**31)),
        tiff(GREY, *((tag, SHORT, 1, 0) for tag in range(1000, 1300))),
    ],
    ids=[
        *("huge tiles", "tiles", "a long strip", "samples", "bits", "a JPEG", "two widths", "a width elsewhere"),
        *("a width of two", "BigTIFF", "many bits", "bits behind the file", "entries"),
    ],
)
def test_what_may_take_more_memory_than_its_picture_is_refused(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCV takes 4 GB for tiles of 32752 x 32752 pixels."""
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(MessageError, match="publish jpeg or png"):
        decode_compressed(data, "tiff")
