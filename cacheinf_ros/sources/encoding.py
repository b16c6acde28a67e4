# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""From the bytes of an image message to a BGR array: every encoding that ROS has a name for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError
from cacheinf_ros.sources.layouts import FullChroma, Interleaved, Layout, Mosaic, Paired, QuarterChroma, RawImage
from cacheinf_ros.sources.picture_files import AS_STORED

_REMEDY = "publish the camera's colour or grey pictures instead, as bgr8, rgb8 or mono8"

# {} is the number of bits, 8 or 16
_FAMILIES: dict[str, Interleaved | Mosaic] = {
    "bgr{}": Interleaved(channels=3),
    "rgb{}": Interleaved(channels=3, code=cv2.COLOR_RGB2BGR),
    "bgra{}": Interleaved(channels=4, code=cv2.COLOR_BGRA2BGR),
    "rgba{}": Interleaved(channels=4, code=cv2.COLOR_RGBA2BGR),
    "mono{}": Interleaved(channels=1, code=cv2.COLOR_GRAY2BGR),
    # the OpenCV names carry no colour order; like cv_bridge we take it to be OpenCV's own
    "{}UC1": Interleaved(channels=1, code=cv2.COLOR_GRAY2BGR),
    "{}UC3": Interleaved(channels=3),
    "{}UC4": Interleaved(channels=4, code=cv2.COLOR_BGRA2BGR),
    # not OpenCV's names of two letters (BayerRG): those begin at the second pixel of the second row
    "bayer_rggb{}": Mosaic(code=cv2.COLOR_BayerRGGB2BGR),
    "bayer_bggr{}": Mosaic(code=cv2.COLOR_BayerBGGR2BGR),
    "bayer_gbrg{}": Mosaic(code=cv2.COLOR_BayerGBRG2BGR),
    "bayer_grbg{}": Mosaic(code=cv2.COLOR_BayerGRBG2BGR),
}
_LAYOUTS: dict[str, Layout] = {
    **{name.format(8 * depth): replace(layout, depth=depth) for depth in (1, 2) for name, layout in _FAMILIES.items()},
    "uyvy": Paired(code=cv2.COLOR_YUV2BGR_UYVY),
    "yuv422": Paired(code=cv2.COLOR_YUV2BGR_UYVY),
    "yuyv": Paired(code=cv2.COLOR_YUV2BGR_YUYV),
    "yuv422_yuy2": Paired(code=cv2.COLOR_YUV2BGR_YUYV),
    "nv12": QuarterChroma(code=cv2.COLOR_YUV2BGR_NV12),
    "nv21": QuarterChroma(code=cv2.COLOR_YUV2BGR_NV21),
    "nv24": FullChroma(),
}
_NO_PICTURES = {
    **{f"{bits}FC{n}": "a depth or float image" for bits in (32, 64) for n in (1, 2, 3, 4)},
    **{f"{bits}SC{n}": "an image of signed numbers" for bits in (8, 16, 32) for n in (1, 2, 3, 4)},
    **{f"{bits}UC2": "an image of two channels" for bits in (8, 16)},
}


def decode_image(
    encoding: str, height: int, width: int, step: int, data: Any, is_bigendian: bool = False
) -> NDArray[np.uint8]:
    """Return the picture in the fields of a ``sensor_msgs/Image``.

    Args:
        encoding: one of sensor_msgs/image_encodings.hpp: rgb, bgr and grey of 8 or 16 bits, Bayer, YUV.
        height, width: size in pixels.
        step: bytes per row, padding included; of nv12, nv21 and nv24 per row of the luma plane.
        data: anything with a buffer of bytes (bytes, array.array, uint8 array).
        is_bigendian: byte order of 16-bit pixels.

    Returns:
        uint8 [height, width, 3], BGR, contiguous. It shares memory with ``data`` where nothing had to be
        converted. Of 16-bit pixels the upper byte is kept.

    Raises:
        MessageError: an encoding that is unknown or no camera picture, or sizes that contradict each other.
    """
    _refuse_other_than_pictures(encoding)
    layout = _LAYOUTS.get(encoding)
    if layout is None:
        raise MessageError(f"image encoding {encoding!r} is not supported; publish one of {', '.join(_LAYOUTS)}")
    if height < 1 or width < 1:
        raise MessageError(f"an image of {height} x {width} pixels is empty; check the camera driver")
    raw = np.frombuffer(data, np.uint8)
    return layout.to_bgr(
        RawImage(encoding=encoding, height=height, width=width, step=step, raw=raw, is_bigendian=is_bigendian)
    )


def decode_compressed(data: Any, description: str = "") -> NDArray[np.uint8]:
    """Return the picture in a ``sensor_msgs/CompressedImage``.

    Args:
        data: a whole JPEG or PNG file (or another that OpenCV reads), anything with a buffer of bytes.
        description: the message's ``format`` field, such as "jpeg" or "rgb8; jpeg compressed bgr8".

    Returns:
        uint8 [height, width, 3], BGR.

    Raises:
        MessageError: the bytes are not a picture, or not one of a camera.
    """
    if "compressedDepth" in description:
        raise MessageError(f"a compressed image of format {description!r} is a depth image; {_REMEDY}")
    stored = _stored_encoding(description)
    if stored.startswith("bayer_"):
        mosaic = _read_file(data, description, cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION)
        height, width = mosaic.shape
        return decode_image(stored.replace("16", "8"), height, width, width, mosaic)
    image = _read_file(data, description, AS_STORED)
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), np.uint8) if stored.startswith("rgb") else image


def _stored_encoding(description: str) -> str:
    """Find the order of the colours in a file of image_transport, which gives OpenCV any order as if it were BGR.

    The description is "<encoding of the camera>; <kind of file> compressed <encoding in the file>". Where the last
    is missing, it is that of the camera; any other description gives bgr8.
    """
    match = re.fullmatch(r"(\w+); *\w+ compressed *(\w*) *", description)
    if match is None:
        return "bgr8"
    _refuse_other_than_pictures(match[1])
    return match[2] or match[1]


def _refuse_other_than_pictures(encoding: str) -> None:
    if encoding in _NO_PICTURES:
        raise MessageError(f"{encoding} is {_NO_PICTURES[encoding]}, not a camera picture; {_REMEDY}")


def _read_file(data: Any, description: str, mode: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(data, np.uint8)
    try:
        image = cv2.imdecode(raw, mode) if raw.size else None
    except cv2.error:  # a header that claims more pixels than OpenCV allows
        image = None
    if image is None:
        raise MessageError(
            f"a compressed image of format {description!r} and {raw.size} bytes cannot be decoded; publish jpeg or png"
        )
    return np.asarray(image, np.uint8)
