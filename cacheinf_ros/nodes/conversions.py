# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Conversions between ROS messages and the values that the rest of the package uses."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header

from cacheinf_ros import msg
from cacheinf_ros.cache_map import LARGEST_SIDE, CacheMap, Motion, grid_shape
from cacheinf_ros.errors import MOST_CHARACTERS, CacheinfError, MessageError, quoted
from cacheinf_ros.pipeline import MapUpdate, Status
from cacheinf_ros.sources import MOST_PIXELS, ValueRange, decode_compressed, decode_image

_NS_PER_S = 1_000_000_000
_MOST_BLOCKS = 2**21  # of a map that is received: enough for 4K images in blocks of 2; dozens of maps are kept
Pixels = NDArray[np.uint8]


def header_from(header: Any) -> Header:
    """Return a ROS header to publish, from any object with a header's fields."""
    if isinstance(header, Header):
        return header
    return Header(stamp=Time(sec=header.stamp.sec, nanosec=header.stamp.nanosec), frame_id=header.frame_id)


def stamp_ns(header: Any) -> int:
    """Return the header's stamp in nanoseconds."""
    return int(header.stamp.sec) * _NS_PER_S + int(header.stamp.nanosec)


def time_message(stamp: int) -> Time:
    """Convert a stamp in nanoseconds to a message."""
    return Time(sec=stamp // _NS_PER_S, nanosec=stamp % _NS_PER_S)


def image_size(message: Any) -> tuple[int, int]:
    """Return the (height, width) a message claims, within what a cache map may have, even if it cannot be decoded."""
    height, width = (min(max(1, getattr(message, side, 1)), LARGEST_SIDE) for side in ("height", "width"))
    return (height, width) if height * width <= MOST_PIXELS else (1, 1)


def image_from(message: Any, value_range: ValueRange | None = None) -> Pixels:
    """Decode a message with the fields of sensor_msgs/Image or CompressedImage.

    Args:
        message: the message.
        value_range: which values of more than 8 bits, one to a pixel, are black and white; None: the upper byte of 16
            bits is kept.

    Returns:
        uint8 [height, width, 3], BGR; must not be written to, because it may share the message's memory.

    Raises:
        MessageError: the message holds no image that can be read.
    """
    if hasattr(message, "format"):
        return decode_compressed(message.data, message.format, value_range)
    return decode_image(
        message.encoding,
        message.height,
        message.width,
        message.step,
        message.data,
        bool(message.is_bigendian),
        value_range,
    )


def compressed_message(header: Header, image: Pixels, quality: int = 90) -> CompressedImage:
    """Encode an image, uint8 [height, width, 3], BGR, as a JPEG message."""
    return CompressedImage(header=header, format="jpeg", data=byte_array(encode("jpeg", image, quality)))


def encode(wire: str, image: Pixels, quality: int) -> bytes:
    """Encode an image as a picture file of format "png" or "jpeg"."""
    # fastest compression: a robot's link is rarely so slow that a file 10 % smaller is worth four times the time
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if wire == "jpeg" else [cv2.IMWRITE_PNG_COMPRESSION, 1]
    done, data = cv2.imencode(f".{wire}", image, options)
    if not done:
        raise MessageError(f"an image of shape {image.shape} cannot be encoded as {wire}")
    return data.tobytes()


def cache_map_message(header: Header, link: MapUpdate, image_values: Sequence[float], voxels: str = "") -> msg.CacheMap:
    """Convert a cache map and its place in the chain to a message.

    Args:
        header: of the image.
        link: the map.
        image_values: the parameter of this name, with which the image was read.
        voxels: likewise.
    """
    cache_map = link.cache_map
    return msg.CacheMap(
        header=header,
        session=link.session,
        sequence=link.sequence,
        reference_sequence=link.reference_sequence,
        reference_stamp=time_message(link.reference_stamp_ns),
        motion=cache_map.motion.matrix.ravel(),
        height=cache_map.image_size[0],
        width=cache_map.image_size[1],
        block_size=cache_map.block_size,
        reusable=_bytes(np.packbits(cache_map.reusable)),
        reuse_ratio=cache_map.reuse_ratio,
        matcher=link.matcher,
        reason=cache_map.reason,
        matching_ms=link.matching_ms,
        image_values=image_values,
        voxels=voxels,
    )


def link_from(message: msg.CacheMap, image_values: Sequence[float] | None = None, voxels: str = "") -> MapUpdate:
    """Convert a cache map message to a value.

    Args:
        message: the message.
        image_values: the values with which its image must have been read; None: any will do, and any voxels.
        voxels: the cells by which it must have been made of a cloud of points; empty: of no such cloud.

    Raises:
        MessageError: the message contradicts itself, or is of an image that was read with other values.
    """
    if image_values is not None and tuple(message.image_values) != tuple(image_values):
        raise MessageError(
            f"cache map {message.sequence} of {quoted(message.session)} is of an image that was read with image_values "
            f"{[*map(float, message.image_values)]}, here they are {[*image_values]}; start both nodes with the same"
        )
    if image_values is not None and message.voxels != voxels:
        raise MessageError(
            f"cache map {message.sequence} of {quoted(message.session)} is of a frame that was made with voxels "
            f"{quoted(message.voxels)}, here they are {quoted(voxels)}; start both nodes with the same"
        )
    try:
        return MapUpdate(
            session=message.session,
            sequence=message.sequence,
            reference_sequence=message.reference_sequence,
            stamp_ns=stamp_ns(message.header),
            reference_stamp_ns=int(message.reference_stamp.sec) * _NS_PER_S + message.reference_stamp.nanosec,
            cache_map=_cache_map_from(message),
            matcher=message.matcher[:MOST_CHARACTERS],
            matching_ms=message.matching_ms,
        )
    except (CacheinfError, ValueError) as error:
        raise MessageError(f"cache map {message.sequence} of {quoted(message.session)} is unusable: {error}") from None


def _cache_map_from(message: msg.CacheMap) -> CacheMap:
    size = (message.height, message.width)
    rows, columns = grid_shape(size, message.block_size)
    if size[0] * size[1] > MOST_PIXELS or rows * columns > _MOST_BLOCKS:
        raise MessageError(
            f"{size[0]} x {size[1]} pixels in {rows} x {columns} blocks: at most {MOST_PIXELS} pixels and "
            f"{_MOST_BLOCKS} blocks; match with a larger block_size, or scale the image down"
        )
    packed = np.frombuffer(message.reusable, np.uint8)
    if packed.size != -(-rows * columns // 8):
        raise MessageError(f"{packed.size} bytes of reusable bits for {rows} x {columns} blocks")
    return CacheMap(
        image_size=size,
        block_size=message.block_size,
        reusable=np.unpackbits(packed, count=rows * columns).reshape(rows, columns).astype(np.bool_),
        motion=Motion(matrix=np.array(message.motion, np.float64).reshape(3, 3)),
        reason=message.reason[:MOST_CHARACTERS],
    )


def status_message(name: str, status: Status, hardware_id: str = "") -> DiagnosticStatus:
    """Convert a node's status to a diagnostics message; ``hardware_id``: the camera that it is about, if any."""
    return DiagnosticStatus(
        level=bytes([status.level]),
        name=name,
        hardware_id=hardware_id,
        message=status.message,
        values=[KeyValue(key=key, value=value) for key, value in status.values.items()],
    )


def _bytes(values: NDArray[np.uint8]) -> array[int]:
    return byte_array(values.tobytes())


def byte_array(data: bytes) -> array[int]:
    """Wrap bytes for a message: rclpy checks a list or bytes value by value, but takes an array('B') as it is."""
    return array("B", data)
