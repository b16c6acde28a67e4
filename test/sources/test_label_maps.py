# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Class maps beside pictures are read as they were drawn, or refused with the remedy."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import FolderSource
from cacheinf_ros.sources.label_maps import read_label_map

MAPS = arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9)))


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "7.jpg"
    (path.parent / "labels").mkdir()
    cv2.imwrite(str(path), np.zeros((8, 8, 3), np.uint8))
    return path


@given(drawn=MAPS, has_palette=st.booleans())
def test_numbers_are_read_whatever_colours_they_are_shown_in(
    picture: Path, drawn: np.ndarray, has_palette: bool
) -> None:
    image = Image.fromarray(drawn)
    if has_palette:
        image.putpalette([255 - value // 3 for value in range(768)])
    image.save(picture.parent / "labels" / "7.png")
    found = read_label_map(picture)
    assert found is not None and found.dtype == np.uint8 and np.array_equal(found, drawn)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_numbers_of_a_palette_may_have_few_bits(picture: Path, bits: int) -> None:
    drawn = (np.arange(36, dtype=np.uint8) % 2**bits).reshape(6, 6)
    image = Image.fromarray(drawn)
    image.putpalette([0, 0, 0, 255, 0, 0] * 8)
    image.save(picture.parent / "labels" / "7.png", bits=bits)
    assert np.array_equal(read_label_map(picture), drawn)


def grey_png(bits: int) -> np.ndarray:
    """Return a PNG file of 8 x 8 black pixels of so many bits each."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", 8, 8, bits, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" * (1 + bits)) * 8)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return np.frombuffer(content, np.uint8)


def test_bytes_are_read_from_files_written_by_hand(picture: Path) -> None:
    (picture.parent / "labels" / "7.png").write_bytes(grey_png(8).tobytes())
    assert np.array_equal(read_label_map(picture), np.zeros((8, 8)))


def test_a_folder_knows_its_maps(tmp_path: Path) -> None:
    for name in ("a.png", "b.jpg"):
        cv2.imwrite(str(tmp_path / name), np.zeros((8, 8, 3), np.uint8))
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_text("0 0.5 0.5 1 1")  # boxes, as ultralytics has them
    assert not FolderSource(tmp_path).has_class_maps
    cv2.imwrite(str(tmp_path / "labels" / "b.png"), np.full((8, 8), 3, np.uint8))
    source = FolderSource(tmp_path)
    first, second = source
    assert source.has_class_maps and source.class_map(first) is None
    assert np.array_equal(source.class_map(second), np.full((8, 8), 3))
    with pytest.raises(SourceError, match=r"b\.jpg and its class map in labels/ differ in size: 8x8 and 4x8"):
        source.class_map(replace(second, image=second.image[:4]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1],
            "no map of class numbers: .* export masks as class indices",
        ),
        (cv2.imencode(".png", np.zeros((8, 8), np.uint16))[1], "no map of class numbers"),
        (grey_png(1), "no map of class numbers"),  # is 1 the first class, or a 255 that was saved so?
        (grey_png(2), "no map of class numbers"),
        (grey_png(4), "no map of class numbers"),
        (cv2.imencode(".jpg", np.zeros((8, 8), np.uint8))[1], "cannot be read"),
        (cv2.imencode(".png", np.zeros((88, 88), np.uint8))[1][:60], "cannot be read"),
        (np.zeros(0, np.uint8), "cannot be read"),
    ],
)
def test_what_is_no_map_is_refused(content: np.ndarray, message: str, tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.png").write_bytes(content.tobytes())
    with pytest.raises(SourceError, match=rf"labels/a\.png .*{message}"):
        read_label_map(tmp_path / "a.jpg")
