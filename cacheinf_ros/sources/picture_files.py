# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decoding of PNG and JPEG files from outside; their size is read from the header before any memory is taken."""

from __future__ import annotations

import struct

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError

AS_STORED = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
"""The flags to read BGR, ignoring EXIF orientation, so that a camera's compressed images agree with its raw ones."""
MOST_PIXELS = 2**25
"""The most pixels of a picture, some 33 million: more than any robot's camera has, and 100 MB when decoded."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_CHUNK_BYTES = 12  # overhead of a PNG chunk: length, name, checksum
_ANIMATED = (b"acTL", b"fcTL", b"fdAT")
_FRAMES = frozenset(range(0xC0, 0xC8)) - {0xC4}  # JPEG's markers of a Huffman-coded frame (T.81, table B.1)
_ARITHMETIC = frozenset(range(0xC9, 0xD0)) - {0xCC}  # and of an arithmetic-coded one, which no camera writes
_BLOCK = 8  # pixels
_SCAN = 0xDA
_MOST_MARKERS = 1000  # in a JPEG before its frame header; each may hold 64 kB
_MOST_CHUNKS = 1000  # in a PNG, beyond one per kilobyte; encoders write pixels in chunks of 8 kB
_CHUNK_LENGTHS = {b"IHDR": 13, b"PLTE": 768, b"IEND": 0}  # most bytes of content
_LONE = frozenset({0x01, *range(0xD0, 0xD9)})  # JPEG's markers without content


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Return (height, width) from the header of a PNG or JPEG file; None where there is no such header."""
    return _png_size(data) or _jpeg_size(data)


def _png_size(raw: bytes) -> tuple[int, int] | None:
    """Return (height, width) of a PNG file; None for any other."""
    if len(raw) < 24 or not raw.startswith(_PNG):
        return None
    width, height = struct.unpack_from(">II", raw, 16)
    return height, width


def is_damaged(raw: bytes, size: tuple[int, int]) -> bool:
    """Tell whether a PNG or JPEG file of (height, width) pixels cannot be whole, before memory for them is taken.

    A Huffman code takes at least a bit (T.81, annex C), and every block of 8 x 8 pixels has one: a shorter JPEG is cut
    off or claims too large a size. OpenCV would take hundreds of megabytes for a file of a few bytes.
    """
    if raw.startswith(_PNG):
        return _is_damaged_png(raw)
    blocks = -(-size[0] // _BLOCK) * -(-size[1] // _BLOCK)
    return raw.startswith(_JPEG) and blocks > 8 * len(raw)


def _is_damaged_png(raw: bytes) -> bool:
    """Tell whether a PNG file's chunks do not lead to its end, or hold no picture or more than one.

    OpenCV allocates all the memory that a chunk claims and, where it then fails, leaks it: gigabytes for a few bytes.
    """
    at, names = len(_PNG), [b""]
    while names[-1] != b"IEND":
        if at + _CHUNK_BYTES > len(raw):
            return True
        if len(names) > _MOST_CHUNKS + len(raw) // 1024:
            return True
        length, name = struct.unpack_from(">I4s", raw, at)
        if length > _CHUNK_LENGTHS.get(name, len(raw)) or name in _ANIMATED:
            return True
        at += _CHUNK_BYTES + length
        names.append(name)
    return at != len(raw) or names[1] != b"IHDR" or names.count(b"IHDR") > 1 or b"IDAT" not in names


def _jpeg_size(raw: bytes) -> tuple[int, int] | None:
    """Return (height, width) from a JPEG file's first frame header; None where none comes soon, or after damage."""
    if not raw.startswith(_JPEG):
        return None
    at = raw.find(b"\xff", len(_JPEG))  # decoders also skip to the next marker
    for _ in range(_MOST_MARKERS):
        if not 0 <= at <= len(raw) - 9:
            return None
        marker = raw[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            return height, width
        if marker in (_SCAN, 0x00) or marker in _ARITHMETIC:  # pixel data, or a frame that is not read
            return None
        if marker == 0xFF:
            after = at + 1
        elif marker in _LONE:
            after = at + 2
        else:
            after = at + 2 + struct.unpack_from(">H", raw, at + 2)[0]
        at = raw.find(b"\xff", after)
    return None


def decode_picture(data: bytes, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """Decode a PNG or JPEG to uint8 [height, width, 3], BGR; files that announce too many pixels are refused.

    Args:
        data: the file.
        size: (height, width) that the picture must have; None: any, up to :data:`MOST_PIXELS`.

    Raises:
        MessageError: the data is no picture, not of this size, or too large.
    """
    announced = picture_size(data)
    if announced is None:
        raise MessageError(f"a picture of {len(data)} bytes is neither PNG nor JPEG, or is damaged")
    if size is not None and announced != size:
        raise MessageError(f"a picture of {announced} pixels came where {size} were expected")
    if announced[0] * announced[1] > MOST_PIXELS:
        raise MessageError(f"a picture of {announced} pixels is too large: send at most {MOST_PIXELS} pixels")
    if is_damaged(data, announced):
        raise MessageError(f"a picture of {announced} pixels and {len(data)} bytes is a damaged PNG or a JPEG cut off")
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), AS_STORED)
    except cv2.error:  # for example, no memory for the pixels
        image = None
    if image is None or image.shape[:2] != announced:
        raise MessageError(f"a picture of {announced} pixels cannot be decoded")
    return np.asarray(image, np.uint8)
