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
"""Of a picture, some 33 million: more than any robot's camera has, and 100 MB when decoded."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG's markers of a frame's header (T.81, table B.1)
_SCAN = 0xDA
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


def _jpeg_size(raw: bytes) -> tuple[int, int] | None:
    """(height, width) of a JPEG file, from its first frame header; None where there is none."""
    if not raw.startswith(_JPEG):
        return None
    at = raw.find(b"\xff", len(_JPEG))  # decoders too look for the next marker
    while 0 <= at <= len(raw) - 9:
        marker = raw[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            return height, width
        if marker == _SCAN:
            return None
        if marker in (0x00, 0xFF):
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
        raise MessageError(f"a picture of {len(data)} bytes is neither PNG nor JPEG")
    if size is not None and announced != size:
        raise MessageError(f"a picture of {announced} pixels came where {size} were expected")
    if announced[0] * announced[1] > MOST_PIXELS:
        raise MessageError(f"a picture of {announced} pixels is too large: send at most {MOST_PIXELS} pixels")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), AS_STORED)
    if image is None or image.shape[:2] != announced:
        raise MessageError(f"a picture of {announced} pixels cannot be decoded")
    return np.asarray(image, np.uint8)
