# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decoding of a compressed image message, which holds a whole picture file, to a BGR array."""

from __future__ import annotations

import re
import struct
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError, quoted
from cacheinf_ros.sources.encoding import VALUES_REMEDY, decode_image, refuse_other_than_pictures
from cacheinf_ros.sources.picture_files import MOST_PIXELS, is_damaged, picture_size
from cacheinf_ros.sources.tiff_files import tiff_size
from cacheinf_ros.sources.value_range import ValueRange

_DEPTH_HEADER = struct.Struct("<iff")
"""What compressed_depth_image_transport writes before a PNG: kind, and the quantisation of reciprocal distances."""


def decode_compressed(data: Any, description: str = "", values: ValueRange | None = None) -> NDArray[np.uint8]:
    """Return the picture in a ``sensor_msgs/CompressedImage``, as it is stored: EXIF orientation is ignored.

    Args:
        data: a whole JPEG, PNG or TIFF file, as anything with a buffer of bytes; with ``values`` also an image of
            compressed_depth_image_transport, in PNG.
        description: the message's ``format`` field, such as "jpeg" or "rgb8; jpeg compressed bgr8".
        values: which values of more than 8 bits become black and white; None: the upper byte of 16 bits is kept.

    Returns:
        uint8 [height, width, 3], BGR.

    Raises:
        MessageError: the bytes are not a picture, not a camera's, or have too many pixels.
    """
    if "compressedDepth" in description:
        return _decode_depth(data, description, values)
    stored = _stored_encoding(description)
    if stored.startswith("bayer_"):
        mosaic = _read_file(data, description, cv2.IMREAD_GRAYSCALE)
        height, width = mosaic.shape
        return decode_image(stored.replace("16", "8"), height, width, width, np.asarray(mosaic, np.uint8))
    if values is None:
        image = np.asarray(_read_file(data, description, cv2.IMREAD_COLOR), np.uint8)
    else:
        image = values.to_bgr(_read_file(data, description, cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH))
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), np.uint8) if stored.startswith("rgb") else image


def _decode_depth(data: Any, description: str, values: ValueRange | None) -> NDArray[np.uint8]:
    """Decode distances: integers as they are, floats from their reciprocals, of which 0 says that none is known."""
    if values is None:
        raise MessageError(f"a compressed image of format {quoted(description)} is a depth image; {VALUES_REMEDY}")
    raw = np.frombuffer(data, np.uint8)
    depth = np.asarray(_read_file(raw[_DEPTH_HEADER.size :], description, cv2.IMREAD_ANYDEPTH), np.uint16)
    if not description.startswith("32FC1"):
        return values.to_bgr(depth)
    _, scale, offset = _DEPTH_HEADER.unpack_from(raw.data)
    with np.errstate(all="ignore"):  # the header may say anything
        metres = np.float32(scale) / (depth - np.float32(offset))
    return values.to_bgr(np.where(depth > 0, metres, np.float32(0)))


def _stored_encoding(description: str) -> str:
    """Find the colour order in a file by image_transport, which hands any order to OpenCV as if it were BGR.

    The description is "<encoding of the camera>; <kind of file> compressed <encoding in the file>". Where the last
    is missing, it is that of the camera; any other description gives bgr8.
    """
    match = re.fullmatch(r"(\w+); *\w+ compressed *(\w*) *", description)
    if match is None:
        return "bgr8"
    refuse_other_than_pictures(match[1])
    return match[2] or match[1]


def _read_file(data: Any, description: str, mode: int) -> NDArray[np.generic]:
    """Read a file as OpenCV does in this mode: [height, width] or [height, width, 3]."""
    raw = np.frombuffer(data, np.uint8)
    is_known = _may_be_decoded(raw.tobytes(), description)
    try:
        # raw images have no orientation either, so that both transports give the same frame
        image = cv2.imdecode(raw, mode | cv2.IMREAD_IGNORE_ORIENTATION) if is_known else None
    except cv2.error:  # a header that claims more pixels than OpenCV allows
        image = None
    if image is None:
        raise MessageError(
            f"a compressed image of format {quoted(description)} and {raw.size} bytes cannot be decoded; "
            "publish jpeg or png"
        )
    return image


def _may_be_decoded(raw: bytes, description: str) -> bool:
    """Check a file's header before memory for its pixels is taken: is it one that image_transport writes?"""
    size = picture_size(raw) or tiff_size(raw)
    if size is None:
        return False
    height, width = size
    if height * width > MOST_PIXELS:
        raise MessageError(
            f"a compressed image of format {quoted(description)} and {len(raw)} bytes claims {height} x {width} pixels "
            f"and cannot be decoded: {MOST_PIXELS} are the most; check the camera driver, or publish smaller pictures"
        )
    return not is_damaged(raw, size)
