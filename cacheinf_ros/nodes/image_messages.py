# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Image messages: read from the wire, kept as they arrived, and written to the wire.

Neither way copies pixels through ROS' Python classes.
"""

from __future__ import annotations

import logging
import re
import struct
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, TypesysError, get_typestore
from rosbags.typesys.store import Typestore
from sensor_msgs.msg import CompressedImage, Image, PointCloud2
from std_msgs.msg import Header

from cacheinf_ros.errors import MessageError, quoted
from cacheinf_ros.nodes.conversions import header_from, image_from, image_size, stamp_ns
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.pipeline import Health
from cacheinf_ros.pipeline.node_configs import ImageConfig
from cacheinf_ros.sources import points_of

_NAMES = {kind: f"sensor_msgs/msg/{kind.__name__}" for kind in (Image, CompressedImage, PointCloud2)}
_UNREADABLE = (SerdeError, TypesysError, ValueError, IndexError, KeyError, AssertionError, struct.error, MemoryError)
_MONO, _BGR = "mono8", "bgr8"
_LENGTH = struct.Struct("<I")
_NS_PER_MS = 1e6
_ONE_NUMBER = re.compile(r"mono16|(16U|16S|32F|64F)C1")  # a pixel; at the start of an encoding or a format
_JUDGED = 30  # images: the first ones may show a closed shutter
_FEW_LEVELS = 32  # of 256: a tenth, of which nothing but outlines is left
_SAMPLED = 4  # every so many rows and columns
_NOTE, _COMPLAINT = "image_values", "image_levels"  # in /diagnostics
_log = logging.getLogger(__name__)


class CameraMessages:
    """Reads the messages of one topic of images or clouds of points."""

    def __init__(self, message_type: type[Any]) -> None:
        """Prepare to read sensor_msgs/Image, CompressedImage or PointCloud2."""
        self._name = _NAMES[message_type]
        self._types = _types()

    def read(self, serialized: bytes) -> Any:
        """Read a message from its CDR.

        Returns:
            an object with the message's fields by their names; ``data`` is a uint8 array that shares the memory of
            ``serialized``.

        Raises:
            MessageError: the bytes are no such message.
        """
        try:
            return self._types.deserialize_cdr(memoryview(serialized), self._name)  # a view: it is sliced
        except _UNREADABLE as error:
            raise MessageError(
                f"{len(serialized)} bytes are not a {self._name}: {error}; check that camera and node use the same type"
            ) from None


class ImageReader:
    """Decodes a camera's messages, and says where raw values became a picture with hardly any grey levels.

    Only one thread may call :meth:`read`. The first images are judged, until one has enough levels.
    """

    def __init__(self, config: ImageConfig, health: Health, side: str = "") -> None:
        """Prepare to decode.

        Args:
            config: which raw values are black and white, or which cells show clouds of points.
            health: reports the values as ``image_values``, and as ``image_levels`` what is wrong with them.
            side: which of a node's two cameras this is for, see :class:`~cacheinf_ros.nodes.camera.Camera`.
        """
        self._prefix = f"{side}." if side else ""  # of its parameters
        self._note, self._complaint_note = (f"{side}_{name}" if side else name for name in (_NOTE, _COMPLAINT))
        self.image_values = config.image_values
        self.voxels = config.voxels
        self._range, self._grid = config.value_range, config.voxel_grid
        self._health = health
        self._to_judge = _JUDGED
        self._complained = False
        health.erase(self._note)
        health.erase(self._complaint_note)
        if self._range is not None:
            health.note(self._note, str(self._range))
        if self.voxels:
            health.note("voxels", self.voxels)
        else:
            health.erase("voxels")

    def read(self, message: Any) -> NDArray[np.uint8]:
        """Decode a message, see :func:`image_from`; raises :class:`MessageError` where it holds no image.

        Where it is a cloud of points, return the frame that shows it.
        """
        if self._grid is not None:
            return self._grid.frame(points_of(message))
        image = image_from(message, self._range)
        if self._to_judge:
            described = getattr(message, "encoding", "") or getattr(message, "format", "")
            if _ONE_NUMBER.match(described):
                self._judge(described, image)
        return image

    def size(self, message: Any) -> tuple[int, int]:
        """Return the (height, width) that the frame of a message has, or would have if it could be decoded."""
        return image_size(message) if self._grid is None else self._grid.frame_size

    def _judge(self, described: str, image: NDArray[np.uint8]) -> None:
        self._to_judge -= 1
        complaint = self._complaint(described, np.unique(image[::_SAMPLED, ::_SAMPLED, 0]))
        if not complaint:
            self._to_judge = 0
            self._health.erase(self._complaint_note)
        elif not self._complained:
            self._complained = True
            self._health.note(self._complaint_note, complaint)
            _log.warning("%s", complaint)

    def _complaint(self, described: str, levels: NDArray[np.uint8]) -> str:
        """Say what to do about a picture with these grey levels, in order; empty: nothing."""
        if self._range is None:
            is_poor = levels.size < _FEW_LEVELS
            remedy = f"say which raw values are black and white, as in {self._prefix}image_values: [7000.0, 9000.0]"
        else:
            is_poor = levels.size - (levels[0] == 0) - (levels[-1] == 255) == 0
            remedy = f"choose other {self._prefix}image_values than {self._range}, by which all of it is black or white"
        if not is_poor:
            return ""
        if "jpeg" in described:  # no range helps
            remedy = "JPEG keeps 8 bits: choose png as the format of image_transport's compressed images"
        return f"an image, {quoted(described)}, has {levels.size} of 256 grey levels: {remedy}"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message and the time of its arrival.

    Attributes:
        message: a message with a header, of a ROS class or as :class:`CameraMessages` reads it.
        received_ns: when it arrived, by :func:`time.monotonic_ns`.
    """

    message: Any
    received_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def header(self) -> Header:
        """The frame's header, to be copied to everything derived from the frame."""
        return header_from(self.message.header)

    @property
    def stamp_ns(self) -> int:
        """The frame's stamp in nanoseconds."""
        return stamp_ns(self.message.header)

    @property
    def age_ms(self) -> float:
        """The time since the message arrived, in milliseconds."""
        return (time.monotonic_ns() - self.received_ns) / _NS_PER_MS


def serialized_image(header: Header, image: NDArray[np.uint8]) -> bytes:
    """Serialize a raw image for publishing: uint8 [height, width, 3] as bgr8, [height, width] as mono8."""
    height, width = image.shape[:2]
    channels = image.shape[2] if image.ndim == 3 else 1
    types = _types()
    message = types.types[_NAMES[Image]](
        header=_header(header),
        height=height,
        width=width,
        encoding=_BGR if channels == 3 else _MONO,
        is_bigendian=0,
        step=width * channels,
        data=np.zeros(0, np.uint8),
    )
    pixels = np.ascontiguousarray(image)
    # the pixels come last, behind their number: joining copies them once, writing them with the message three times
    fields = bytes(types.serialize_cdr(message, _NAMES[Image]))[: -_LENGTH.size]
    return b"".join((fields, _LENGTH.pack(pixels.nbytes), pixels.data))


def _header(header: Header) -> Any:
    types = _types().types
    stamp = types["builtin_interfaces/msg/Time"](sec=header.stamp.sec, nanosec=header.stamp.nanosec)
    return types["std_msgs/msg/Header"](stamp=stamp, frame_id=header.frame_id)


@cache  # building the type store takes a tenth of a second, and it is never changed
def _types() -> Typestore:
    return get_typestore(Stores.LATEST)


class LazyImage:
    """An image topic that costs nothing while nobody subscribes."""

    def __init__(self, node: Node, topic: str) -> None:
        self._publisher = publish_on(node, Image, topic, profile(1))

    @property
    def is_wanted(self) -> bool:
        """Whether anybody subscribes."""
        return self._publisher.get_subscription_count() > 0

    def publish(self, header: Header, image: NDArray[np.uint8]) -> None:
        """Publish an image: uint8 [height, width, 3], BGR, or [height, width]."""
        self._publisher.publish(serialized_image(header, image))
