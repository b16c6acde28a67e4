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
_MOST_PIXELS = 2**25  # some 33 million: more than any robot's camera has, and 100 MB when decoded


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Return (height, width) as the header of a PNG or JPEG says; None where there is no such header."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return height, width
    place = 2
    while data[:2] == b"\xff\xd8" and place + 9 <= len(data) and data[place] == 0xFF:
        marker, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        if 0xC0 <= marker <= 0xC3:
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return height, width
        place += 2 + length
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
    if announced[0] * announced[1] > _MOST_PIXELS:
        raise MessageError(f"a picture of {announced} pixels is too large: send at most {_MOST_PIXELS} pixels")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), AS_STORED)
    if image is None or image.shape[:2] != announced:
        raise MessageError(f"a picture of {announced} pixels cannot be decoded")
    return np.asarray(image, np.uint8)
