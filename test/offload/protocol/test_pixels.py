# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Pixels are decoded again; pictures of the wrong kind or size are refused before they take memory."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage import data as photographs

from cacheinf_ros.engine import Pixels
from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload import WireImage
from cacheinf_ros.offload.protocol.pixels import decode_pixels, encode_pixels

CAT = np.ascontiguousarray(photographs.chelsea()[:120, :150, ::-1])


def some(seed: int, share: float, rows: tuple[int, int]) -> np.ndarray:
    """Return a mask of a block of pixels and a few single ones."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((rows[1] - rows[0], CAT.shape[1]), np.uint8)
    height, width = (int(side * share) for side in mask.shape)
    mask[:height, 20 : 20 + width] = 1
    mask[rng.random(mask.shape) < 0.001 * (share > 0)] = 1
    return mask


def encoded(rows: tuple[int, int], mask: np.ndarray, wire: WireImage = WireImage.PNG) -> bytes:
    return encode_pixels(Pixels(rows=rows, mask=mask, image=CAT[slice(*rows)]), wire, 90)


@given(
    seed=st.integers(0, 10**6),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    rows=st.sampled_from([(0, 120), (33, 97), (119, 120), (50, 50)]),
)
def test_come_back_without_loss(seed: int, share: float, rows: tuple[int, int]) -> None:
    mask, image = some(seed, share, rows), CAT[slice(*rows)]
    back = decode_pixels(encoded(rows, mask), *CAT.shape[:2])
    assert back.rows == rows
    assert (back.mask == mask).all()
    assert (back.image[mask > 0] == image[mask > 0]).all()


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_jpeg_is_smaller_and_close(share: float) -> None:
    rows = (0, 120)
    mask = some(1, share, rows)
    exact, small = (encoded(rows, mask, wire) for wire in (WireImage.PNG, WireImage.JPEG))
    assert len(small) < 0.6 * len(exact)
    back = decode_pixels(small, *CAT.shape[:2])
    assert (back.mask == mask).all()
    assert np.abs(back.image[mask > 0].astype(int) - CAT[mask > 0]).mean() < 4


def test_few_pixels_take_few_bytes() -> None:
    rows = (0, 120)
    whole = encoded(rows, np.ones((120, 150), np.uint8))
    assert len(encoded(rows, some(1, 0.1, rows))) < len(whole) / 3


@given(seed=st.integers(0, 10**6), data=st.data())
def test_broken_ones_are_refused_or_harmless(seed: int, data: st.DataObject) -> None:
    whole = bytearray(encoded((10, 90), some(seed, 0.3, (10, 90))))
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        whole = whole[:place]
    else:
        whole[place] ^= data.draw(st.integers(1, 255))
    try:
        back = decode_pixels(bytes(whole), *CAT.shape[:2])
    except MessageError:
        return
    assert back.image.shape == (*back.mask.shape, 3)


def test_a_picture_that_announces_gigabytes_is_not_decoded() -> None:
    data = bytearray(encoded((0, 120), np.ones((120, 150), np.uint8)))
    at = data.index(b"IHDR")
    data[at + 4 : at + 12] = struct.pack(">II", 100_000, 100_000)
    data[at + 17 : at + 21] = struct.pack(">I", zlib.crc32(data[at : at + 17]))
    with pytest.raises(MessageError, match="100000"):
        decode_pixels(bytes(data), *CAT.shape[:2])
