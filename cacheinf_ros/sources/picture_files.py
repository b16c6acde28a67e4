# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""PNG and JPEG files that others sent: their size is read from the header, before any memory is taken."""

from __future__ import annotations

import struct

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError

AS_STORED = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
"""BGR, not turned as a file's EXIF tags ask for: a camera's compressed images agree with its raw ones."""
MOST_PIXELS = 2**25
"""A picture may have some 33 million: more than any robot's camera has, and 100 MB when decoded."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_CHUNK_BYTES = 12  # of a PNG's chunk, beside its content: length, name, checksum
_ANIMATED = (b"acTL", b"fcTL", b"fdAT")
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG's markers of a frame's header (T.81, table B.1)
_SCAN = 0xDA
_MOST_MARKERS = 1000  # of a JPEG before its frame's header: a note of 64 kB each
_MOST_CHUNKS = 1000  # of a PNG beside those of a kilobyte or more; encoders write its pixels in chunks of 8
_CHUNK_LENGTHS = {b"IHDR": 13, b"PLTE": 768, b"IEND": 0}  # at most
_LONE = frozenset({0x01, *range(0xD0, 0xD9)})  # JPEG's markers that nothing follows


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Return (height, width) as the header of a PNG or JPEG file says; None where there is no such header."""
    return _png_size(data) or _jpeg_size(data)


def _png_size(raw: bytes) -> tuple[int, int] | None:
    """(height, width) of a PNG file, or None for any other."""
    if len(raw) < 24 or not raw.startswith(_PNG):
        return None
    width, height = struct.unpack_from(">II", raw, 16)
    return height, width


def is_damaged_png(raw: bytes) -> bool:
    """Whether it is a PNG file whose chunks do not lead to its end, or hold no picture, or more than one.

    OpenCV takes all the memory that a chunk claims, and where it then fails, keeps it: gigabytes for a few bytes.
    """
    if not raw.startswith(_PNG):
        return False
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
    """(height, width) of a JPEG file, from its first frame header; None where there is none soon, or damage before."""
    if not raw.startswith(_JPEG):
        return None
    at = raw.find(b"\xff", len(_JPEG))  # decoders too look for the next marker
    for _ in range(_MOST_MARKERS):
        if not 0 <= at <= len(raw) - 9:
            return None
        marker = raw[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            return height, width
        if marker in (_SCAN, 0x00):  # pixels, or a byte of them
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
    """Decode a PNG or JPEG: uint8 [height, width, 3], BGR. A few bytes may announce gigabytes: those are refused.

    Args:
        data: the file.
        size: (height, width) that it must have; None: any up to a bound.

    Raises:
        MessageError: it is no picture, not of this size, or too large.
    """
    announced = picture_size(data)
    if announced is None:
        raise MessageError(f"a picture of {len(data)} bytes is neither PNG nor JPEG, or is damaged")
    if is_damaged_png(data):
        raise MessageError(f"a picture of {len(data)} bytes is a damaged PNG")
    if size is not None and announced != size:
        raise MessageError(f"a picture of {announced} pixels came where {size} were expected")
    if announced[0] * announced[1] > MOST_PIXELS:
        raise MessageError(f"a picture of {announced} pixels is too large: send at most {MOST_PIXELS} pixels")
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), AS_STORED)
    except cv2.error:  # such as no memory for its pixels
        image = None
    if image is None or image.shape[:2] != announced:
        raise MessageError(f"a picture of {announced} pixels cannot be decoded")
    return np.asarray(image, np.uint8)
