# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decoding of a compressed image message, which holds a whole picture file, to a BGR array."""

from __future__ import annotations

import re
import struct
import sys
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError, quoted
from cacheinf_ros.sources.encoding import (
    NEEDS_RANGE,
    NOT_A_PICTURE_REMEDY,
    RANGE_REMEDY,
    decode_image,
    refuse_other_than_pictures,
)
from cacheinf_ros.sources.picture_files import MOST_PIXELS, is_damaged, picture_size
from cacheinf_ros.sources.tiff_files import tiff_size
from cacheinf_ros.sources.value_range import ValueRange

_RAW_REMEDY = f"{NOT_A_PICTURE_REMEDY}; or take its raw or compressedDepth topic, with image_values"
_16_BITS_GREY = {"mono16", "16UC1"}
_PNG = b"\x89PNG"
_PNG_16_BITS_GREY = b"\x10\0"  # bit depth and kind of colour
_DEPTH_HEADER = struct.Struct("<iff")
"""What compressed_depth_image_transport writes before a PNG: kind, and the quantisation of reciprocal distances."""


def decode_compressed(data: Any, description: str = "", value_range: ValueRange | None = None) -> NDArray[np.uint8]:
    """Return the picture in a ``sensor_msgs/CompressedImage``, as it is stored: EXIF orientation is ignored.

    Args:
        data: a whole JPEG, PNG or TIFF file, as anything with a buffer of bytes; with ``value_range`` also a PNG of
            compressed_depth_image_transport.
        description: the message's ``format`` field, such as "jpeg" or "rgb8; jpeg compressed bgr8".
        value_range: which values of more than 8 bits, one to a pixel, become black and white; of other images, and
            where it is None, the upper byte of 16 bits is kept.

    Returns:
        uint8 [height, width, 3], BGR.

    Raises:
        MessageError: the bytes are not a picture, not a camera's, or have too many pixels; or they are no longer the
            values that the range is for.
    """
    if "compressedDepth" in description:
        return _decode_depth(data, description, value_range)
    stored = _stored_encoding(description)
    if stored.startswith("bayer_"):
        return _decode_mosaic(data, description, stored, value_range)
    if value_range is not None and (stored in _16_BITS_GREY or _is_16_bits_grey(data)):
        return value_range.to_bgr(_read_numbers(data, description))
    image = np.asarray(_read_file(data, description, cv2.IMREAD_COLOR), np.uint8)
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), np.uint8) if stored.startswith("rgb") else image


def _decode_mosaic(data: Any, description: str, stored: str, value_range: ValueRange | None) -> NDArray[np.uint8]:
    if value_range is not None and stored.endswith("16"):
        mosaic = _read_numbers(data, description)
    else:
        mosaic, stored = _read_file(data, description, cv2.IMREAD_GRAYSCALE), stored.replace("16", "8")
    (height, width), step = mosaic.shape, mosaic.strides[0]
    return decode_image(stored, height, width, step, mosaic, sys.byteorder == "big", value_range)


def _decode_depth(data: Any, description: str, value_range: ValueRange | None) -> NDArray[np.uint8]:
    """Decode distances: integers as they are, floats from their reciprocals, of which 0 says that none is known."""
    if value_range is None:
        raise MessageError(f"a compressed image of format {quoted(description)} is a depth image; {RANGE_REMEDY}")
    raw = np.frombuffer(data, np.uint8)
    file = raw[_DEPTH_HEADER.size :]
    if file[: len(_PNG)].tobytes() != _PNG:
        raise _undecodable(raw, description, "choose png in compressed_depth_image_transport")
    stored = np.asarray(_read_file(file, description, cv2.IMREAD_ANYDEPTH), np.uint16)
    if not description.startswith("32FC1"):
        return value_range.to_bgr(stored)
    _, scale, offset = _DEPTH_HEADER.unpack_from(raw.data)
    every = np.arange(2**16, dtype=np.float32)
    with np.errstate(all="ignore"):  # the header may say anything
        metres = np.where(every > 0, np.float32(scale) / (every - np.float32(offset)), 0)
    return value_range.to_bgr(value_range.to_8_bits(metres)[stored])


def _is_16_bits_grey(data: Any) -> bool:
    """Tell whether the data is a PNG of 16-bit grey, which a description need not say."""
    start = np.frombuffer(data, np.uint8)[:26].tobytes()
    return start.startswith(_PNG) and start.endswith(_PNG_16_BITS_GREY)


def _read_numbers(data: Any, description: str) -> NDArray[np.generic]:
    """Read 16-bit values, [height, width]; raises :class:`MessageError` where the file has only 8 bits of each."""
    image = _read_file(data, description, cv2.IMREAD_ANYDEPTH)
    if image.dtype == np.uint8:
        raise MessageError(
            f"a compressed image of format {quoted(description)} has lost what image_values is for: its file has 8 "
            "bits. Choose png as the format of image_transport's compressed images"
        )
    return image


def _stored_encoding(description: str) -> str:
    """Find the colour order in a file by image_transport, which hands any order to OpenCV as if it were BGR.

    The description is "<encoding of the camera>; <kind of file> compressed <encoding in the file>". Where the last
    is missing, it is that of the camera; any other description gives bgr8.
    """
    match = re.fullmatch(r"(\w+); *\w+ compressed *(\w*) *", description)
    if match is None:
        return "bgr8"
    refuse_other_than_pictures(match[1], _RAW_REMEDY if match[1] in NEEDS_RANGE else NOT_A_PICTURE_REMEDY)
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
        raise _undecodable(raw, description, "publish jpeg or png")
    return image


def _undecodable(raw: NDArray[np.uint8], description: str, remedy: str) -> MessageError:
    return MessageError(
        f"a compressed image of format {quoted(description)} and {raw.size} bytes cannot be decoded; {remedy}"
    )


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
