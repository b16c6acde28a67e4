"""From the bytes of an image message to a BGR array: the encodings that cameras send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MessageError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How a pixel is stored: channels, bytes per channel, and the way to BGR from uint8 [height, width, channels]."""

    channels: int
    depth: int = 1
    to_bgr: Callable[[NDArray[np.uint8]], Any]


def _keep(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return image


def _convert(code: int) -> Callable[[NDArray[np.uint8]], Any]:
    return lambda image: cv2.cvtColor(image, code)


_MONO8 = _Layout(channels=1, to_bgr=_convert(cv2.COLOR_GRAY2BGR))
_MONO16 = _Layout(channels=1, depth=2, to_bgr=_convert(cv2.COLOR_GRAY2BGR))
_BGR8 = _Layout(channels=3, to_bgr=_keep)
_BGRA8 = _Layout(channels=4, to_bgr=_convert(cv2.COLOR_BGRA2BGR))
# the OpenCV names (8UC3 and so on) carry no colour order; like cv_bridge we take it to be OpenCV's own
_LAYOUTS = {
    "bgr8": _BGR8,
    "8UC3": _BGR8,
    "rgb8": _Layout(channels=3, to_bgr=_convert(cv2.COLOR_RGB2BGR)),
    "bgra8": _BGRA8,
    "8UC4": _BGRA8,
    "rgba8": _Layout(channels=4, to_bgr=_convert(cv2.COLOR_RGBA2BGR)),
    "mono8": _MONO8,
    "8UC1": _MONO8,
    "mono16": _MONO16,
    "16UC1": _MONO16,
}


def decode_image(
    encoding: str, height: int, width: int, step: int, data: Any, is_bigendian: bool = False
) -> NDArray[np.uint8]:
    """The picture in the fields of a ``sensor_msgs/Image``.

    Args:
        encoding: bgr8, rgb8, bgra8, rgba8, mono8, mono16, 8UC1, 8UC3, 8UC4 or 16UC1.
        height, width: size in pixels.
        step: bytes per row, padding included.
        data: anything with a buffer of bytes (bytes, array.array, uint8 array).
        is_bigendian: byte order of 16-bit pixels.

    Returns:
        uint8 [height, width, 3], BGR, contiguous. It shares memory with ``data`` where nothing had to be
        converted. Of 16-bit pixels the upper byte is kept.

    Raises:
        MessageError: unknown encoding, or sizes that contradict each other.
    """
    layout = _LAYOUTS.get(encoding)
    if layout is None:
        raise MessageError(f"image encoding {encoding!r} is not supported; publish one of {', '.join(_LAYOUTS)}")
    rows = _rows(layout, height, width, step, np.frombuffer(data, np.uint8))
    pixels = rows.reshape(height, width, layout.channels * layout.depth)
    if layout.depth == 2:
        upper = 0 if is_bigendian else 1
        pixels = pixels[:, :, upper::2]
    return np.ascontiguousarray(layout.to_bgr(np.ascontiguousarray(pixels)))


def decode_compressed(data: Any, description: str = "") -> NDArray[np.uint8]:
    """The picture in a ``sensor_msgs/CompressedImage``.

    Args:
        data: a whole JPEG or PNG file (or another that OpenCV reads), anything with a buffer of bytes.
        description: the message's ``format`` field, for the error message only.

    Returns:
        uint8 [height, width, 3], BGR.

    Raises:
        MessageError: the bytes are not a picture.
    """
    raw = np.frombuffer(data, np.uint8)
    image = cv2.imdecode(raw, cv2.IMREAD_COLOR) if raw.size else None
    if image is None:
        raise MessageError(
            f"a compressed image of format {description!r} and {raw.size} bytes cannot be decoded; publish jpeg or png"
        )
    return np.asarray(image, np.uint8)


def _rows(layout: _Layout, height: int, width: int, step: int, raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """uint8 [height, bytes of a row without padding]."""
    used = width * layout.channels * layout.depth
    if height < 1 or width < 1:
        raise MessageError(f"an image of {height} x {width} pixels is empty; check the camera driver")
    if step < used:
        raise MessageError(f"step {step} is shorter than a row of {width} pixels ({used} bytes); check the driver")
    # the padding after the last row is optional: some drivers leave it out
    if raw.size < step * (height - 1) + used:
        raise MessageError(f"{raw.size} bytes are too few for {height} rows of step {step}; check the camera driver")
    return np.lib.stride_tricks.as_strided(raw, shape=(height, used), strides=(step, 1), writeable=False)
