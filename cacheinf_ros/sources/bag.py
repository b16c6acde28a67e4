# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames from a topic of a ROS bag with images or clouds of points, read without ROS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from cacheinf_ros.errors import MessageError, SourceError
from cacheinf_ros.sources.compressed import decode_compressed
from cacheinf_ros.sources.encoding import decode_image
from cacheinf_ros.sources.frame import Frame
from cacheinf_ros.sources.point_cloud import points_of
from cacheinf_ros.sources.value_range import ValueRange
from cacheinf_ros.sources.voxel_grid import EXAMPLE, VoxelGrid

RAW_IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
POINT_CLOUD = "sensor_msgs/msg/PointCloud2"
_IMAGES, _POINTS = "image", "point cloud"
_KINDS = {RAW_IMAGE: _IMAGES, COMPRESSED_IMAGE: _IMAGES, POINT_CLOUD: _POINTS}
_OTHERWISE = {
    _IMAGES: f"clouds of points: say which cells show them, as in '?voxels={EXAMPLE.replace(' ', '')}'",
    _POINTS: "images: leave '?voxels=' out, which is for clouds of points",
}
"""What the user is told where a topic has the other kind of messages than is wanted."""
_ASSUMED_FPS = 30.0


class BagSource:
    """One topic with images or clouds of points, of a ROS 2 bag (sqlite3 or MCAP; a folder or its file) or a ROS 1 bag.

    Stamps are times of recording, relative to the topic's first message. ``fps`` is the mean rate over the whole bag.

    Args:
        path: the bag.
        topic: the topic; None: the only one there is with what is asked for.
        shown: how messages become pictures: by the values of more than 8 bits, one to a pixel, that are black and
            white, or by the cells that show clouds of points. None: of 16 bits to a pixel the upper byte is kept.

    Raises:
        SourceError: the bag is damaged, or the topic is ambiguous.
    """

    def __init__(self, path: Path, topic: str | None = None, shown: ValueRange | VoxelGrid | None = None) -> None:
        self.path = path
        self._voxels = shown if isinstance(shown, VoxelGrid) else None
        self._value_range = shown if isinstance(shown, ValueRange) else None
        self._wanted = _IMAGES if self._voxels is None else _POINTS
        with _reader(path) as reader:
            self.topic = _choose(path, topic, reader, self._wanted)
            count = sum(connection.msgcount for connection in self._connections(reader))
            seconds = reader.duration / 1e9 if count else 0.0
        if not count:
            raise SourceError(f"{path}: topic {self.topic} has no message; record the bag again")
        self.name = f"{path.resolve().name}:{self.topic}"
        self.length: int | None = count
        self.fps: float = (count - 1) / seconds if count > 1 and seconds > 0 else _ASSUMED_FPS

    def __iter__(self) -> Iterator[Frame]:
        """Yield one frame per message; raises :class:`SourceError` where a message holds no picture."""
        start: int | None = None
        for index, (stamp_ns, message) in enumerate(self._messages()):
            start = stamp_ns if start is None else start
            yield Frame(index=index, stamp_ns=stamp_ns - start, image=self._decode(index, message))

    @cached_property
    def begins_ns(self) -> int:
        """When the topic's first message was recorded; raises :class:`SourceError` where the bag is damaged."""
        return next(self._messages())[0]

    def _messages(self) -> Iterator[tuple[int, Any]]:
        """Yield (time of recording in nanoseconds, message)."""
        with _reader(self.path) as reader:
            try:
                for connection, stamp_ns, raw in reader.messages(self._connections(reader)):
                    yield stamp_ns, reader.deserialize(raw, connection.msgtype)
            except Exception as error:  # damaged bytes make SQL, MCAP, compression and CDR readers raise anything
                remedy = "record it again"
                if self.path.is_file() and (self.path.parent / "metadata.yaml").is_file():
                    remedy = f"or give its folder {self.path.parent}, where it says whether messages are compressed"
                raise SourceError(f"{self.path}: the bag is damaged ({error}); {remedy}") from error

    def _connections(self, reader: AnyReader) -> list[Any]:
        return [
            each for each in reader.connections if each.topic == self.topic and _KINDS.get(each.msgtype) == self._wanted
        ]

    def _decode(self, index: int, message: Any) -> NDArray[np.uint8]:
        try:
            if self._voxels is not None:
                return self._voxels.frame(points_of(message))
            if message.__msgtype__ == COMPRESSED_IMAGE:
                return decode_compressed(message.data, message.format, self._value_range)
            return decode_image(
                message.encoding,
                message.height,
                message.width,
                message.step,
                message.data,
                bool(message.is_bigendian),
                self._value_range,
            )
        except MessageError as error:
            raise SourceError(f"{self.name}, message {index}: {error}") from None


@contextmanager
def _reader(path: Path) -> Iterator[AnyReader]:
    try:
        # bags of older distributions do not carry the definitions of their messages
        reader = AnyReader([path], default_typestore=get_typestore(Stores.LATEST))
        reader.open()
    except Exception as error:  # rosbags passes on what its YAML, SQL and MCAP readers raise
        raise SourceError(f"{path}: not a readable bag ({error}); {_remedy(path)}") from error
    try:
        yield reader
    finally:
        reader.close()


def _remedy(path: Path) -> str:
    if path.suffix == ".bag":
        return "try `rosbag reindex`"
    if path.is_dir() and any(each.suffix == ".bag" for each in path.iterdir()):
        return "of a folder of ROS 1 bags give one file"
    return "try `ros2 bag reindex`"


def _choose(path: Path, topic: str | None, reader: AnyReader, wanted: str) -> str:
    """Return the topic with images, or with clouds of points, that is named, or the only one."""
    topics: dict[str, list[str]] = {_IMAGES: [], _POINTS: []}
    for connection in reader.connections:
        found = topics.get(_KINDS.get(connection.msgtype, ""))
        if found is not None and connection.topic not in found:
            found.append(connection.topic)
    those, others = sorted(topics[wanted]), topics[_IMAGES if wanted == _POINTS else _POINTS]
    if topic in those:
        return str(topic)
    if topic in others or (topic is None and others and not those):
        raise SourceError(f"{path}: {topic or ', '.join(sorted(others))} has {_OTHERWISE[wanted]}")
    if not those:
        raise SourceError(
            f"{path}: no topic with {wanted}s; it has {', '.join(sorted(reader.topics)) or 'no topic at all'}"
        )
    if topic is not None:
        raise SourceError(f"{path}: no {wanted} topic {topic}; choose from {', '.join(those)}")
    if len(those) > 1:
        raise SourceError(f"{path}: several {wanted} topics; append one of them, as in {path}:{those[0]}: {those}")
    return those[0]
