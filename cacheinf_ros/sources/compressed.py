# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""From a compressed image message, which is a whole picture file, to a BGR array."""

from __future__ import annotations

import re
import struct
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError
from cacheinf_ros.sources.encoding import NOT_A_PICTURE_REMEDY, decode_image, refuse_other_than_pictures

MOST_PIXELS = 100_000_000
"""Of a picture: more than any camera has, and 300 MB when decoded."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG's markers of a frame's header (T.81, table B.1)
_SCAN = 0xDA
_LONE = frozenset({0x01, *range(0xD0, 0xD9)})  # JPEG's markers that nothing follows


def decode_compressed(data: Any, description: str = "") -> NDArray[np.uint8]:
    """Return the picture in a ``sensor_msgs/CompressedImage``, as it is stored: a note to turn it is not followed.

    Args:
        data: a whole JPEG or PNG file (or another that OpenCV reads), anything with a buffer of bytes.
        description: the message's ``format`` field, such as "jpeg" or "rgb8; jpeg compressed bgr8".

    Returns:
        uint8 [height, width, 3], BGR.

    Raises:
        MessageError: the bytes are not a picture, or not one of a camera, or one of too many pixels.
    """
    if "compressedDepth" in description:
        raise MessageError(f"a compressed image of format {description!r} is a depth image; {NOT_A_PICTURE_REMEDY}")
    stored = _stored_encoding(description)
    if stored.startswith("bayer_"):
        mosaic = _read_file(data, description, cv2.IMREAD_GRAYSCALE)
        height, width = mosaic.shape
        return decode_image(stored.replace("16", "8"), height, width, width, mosaic)
    image = _read_file(data, description, cv2.IMREAD_COLOR)
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), np.uint8) if stored.startswith("rgb") else image


def _stored_encoding(description: str) -> str:
    """Find the order of the colours in a file of image_transport, which gives OpenCV any order as if it were BGR.

    The description is "<encoding of the camera>; <kind of file> compressed <encoding in the file>". Where the last
    is missing, it is that of the camera; any other description gives bgr8.
    """
    match = re.fullmatch(r"(\w+); *\w+ compressed *(\w*) *", description)
    if match is None:
        return "bgr8"
    refuse_other_than_pictures(match[1])
    return match[2] or match[1]


def _read_file(data: Any, description: str, mode: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(data, np.uint8)
    _refuse_too_many_pixels(raw.tobytes(), description)
    try:
        # raw images carry no orientation either: of both transports the frame is the same
        image = cv2.imdecode(raw, mode | cv2.IMREAD_IGNORE_ORIENTATION) if raw.size else None
    except cv2.error:  # a header that claims more pixels than OpenCV allows
        image = None
    if image is None:
        raise MessageError(
            f"a compressed image of format {description!r} and {raw.size} bytes cannot be decoded; publish jpeg or png"
        )
    return np.asarray(image, np.uint8)


def _refuse_too_many_pixels(raw: bytes, description: str) -> None:
    """Look at a file's header before memory for its pixels is taken."""
    height, width = _png_size(raw) or _jpeg_size(raw) or (0, 0)
    if height * width > MOST_PIXELS:
        raise MessageError(
            f"a compressed image of format {description!r} and {len(raw)} bytes claims {height} x {width} pixels and "
            f"cannot be decoded: {MOST_PIXELS} are the most; check the camera driver, or publish smaller pictures"
        )


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
