# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decoders of ROS messages, like :mod:`.decoders`, from the bytes that the middleware delivers."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CompressedImage, Image, PointCloud2

from cacheinf_ros.cache_map import compose
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.msg import CacheMap, ClassCounts, EngineState, SplitPacket
from cacheinf_ros.nodes.class_count_messages import report_from
from cacheinf_ros.nodes.conversions import image_from, image_size, link_from
from cacheinf_ros.nodes.image_messages import CameraMessages
from cacheinf_ros.nodes.matcher import MatcherNode
from cacheinf_ros.nodes.packet_messages import packet_from, result_from, stamp_and_picture
from cacheinf_ros.offload.protocol.mailbox import Mailbox
from cacheinf_ros.offload.protocol.packets import Packet
from cacheinf_ros.pipeline.map_producer import MapProducer
from cacheinf_ros.sources import ValueRange, parse_voxel_grid, points_of
from fuzzing.decoders import Decoder, accepts

_IMAGES, _COMPRESSED, _CLOUDS = (CameraMessages(kind) for kind in (Image, CompressedImage, PointCloud2))
_GRID = parse_voxel_grid("9x8x7, -4..4, -4..4, -2..2")
_MOST_BYTES = 1_000_000
_RANGE = ValueRange(0.3, 5000)
_BEGINNING = b"\0\1\0\0"
_FRAME = np.random.default_rng(0).integers(0, 256, (32, 48, 3), np.uint8)


def cache_map(data: bytes) -> bool:
    """Decode a cache map, and do what is done with every one: make masks, and compose it with another."""
    message = _deserialized(data, CacheMap)
    if message is None:
        return False

    def decode(found: Any) -> None:
        update = link_from(found)
        assert 0 <= update.cache_map.reuse_ratio <= 1
        if update.cache_map.image_size[0] * update.cache_map.image_size[1] <= _MOST_BYTES:
            assert update.cache_map.active_mask.shape == update.cache_map.image_size
            compose(update.cache_map, update.cache_map)

    return accepts(decode, message)


def image(data: bytes) -> bool:
    """Decode a camera's raw image."""
    return _image(_IMAGES, data)


def compressed_image(data: bytes) -> bool:
    """Decode a camera's compressed image."""
    return _image(_COMPRESSED, data)


def point_cloud(data: bytes) -> bool:
    """Decode a cloud of points, and make a frame of it."""

    def decode(raw: bytes) -> None:
        assert _GRID.frame(points_of(_CLOUDS.read(raw))).shape == (*_GRID.frame_size, 3)

    return accepts(decode, data)


def packet(data: bytes) -> bool:
    """Decode a packet of any kind; one that is sound but for its checksum is delivered to a mailbox."""
    message = _deserialized(data, SplitPacket)
    if message is None:
        return False
    found = packet_from(message)
    assert isinstance(found.starts_session, bool) and isinstance(found.ends_session, bool)
    sealed = found.sealed()
    if sealed.is_sound:
        _deliver(sealed)
    return sealed.is_sound


def frame(data: bytes) -> bool:
    """Decode a packet with a whole frame; the picture in it has a decoder of its own."""
    return accepts(stamp_and_picture, data)


def result(data: bytes) -> bool:
    """Decode a server's result of a whole frame."""
    return accepts(result_from, data)


def engine_state(data: bytes) -> bool:
    """Decode what the inference node tells the matcher, and match a frame accordingly."""
    message = _deserialized(data, EngineState)
    if message is None:
        return False
    node: Any = SimpleNamespace(_engine_mode=None, health=_Silent())
    MatcherNode._store_engine_state(node, message)
    if node._engine_mode is None:
        return False
    assert isinstance(node._engine_mode, Mode) and isinstance(node._is_wanted, bool)
    config, producer = _matcher()
    update = producer.link(_FRAME, 0, config, mode=node._engine_mode, dense_ms=node._dense_ms)
    assert update.cache_map.image_size == _FRAME.shape[:2]
    return True


def class_counts(data: bytes) -> bool:
    """Decode what another robot says that its models have answered."""
    message = _deserialized(data, ClassCounts)
    return message is not None and accepts(lambda found: report_from(found), message)


MESSAGE_DECODERS: dict[str, Decoder] = {
    each.__name__: each
    for each in (cache_map, image, compressed_image, point_cloud, packet, frame, result, engine_state, class_counts)
}


class _Silent:
    """A node's health that ignores all that it is told."""

    def note(self, name: str, value: str) -> None:
        """Ignore how the node is."""

    def complained(self, complaint: str) -> None:
        """Ignore what is wrong."""


@cache
def _matcher() -> tuple[MatchingConfig, MapProducer]:
    config = MatchingConfig()
    return config, MapProducer(config)


def _image(messages: CameraMessages, data: bytes) -> bool:
    """Decode an image without and with a range of values."""

    def decode(raw: bytes, value_range: ValueRange | None) -> None:
        message = messages.read(raw)
        height, width = image_size(message)
        assert 0 < height <= 2**14 and 0 < width <= 2**14
        assert image_from(message, value_range).dtype == np.uint8

    plain, scaled = (accepts(lambda raw, to=to: decode(raw, to), data) for to in (None, _RANGE))
    return plain or scaled


def _deserialized(data: bytes, kind: Any) -> Any:
    """Deserialize a message; returns None where the middleware would not deliver it.

    For other beginnings the middleware ends the process (docs/trust.md), which is not what is tested here.
    """
    if len(data) < len(_BEGINNING) + 4:
        return None
    try:
        return deserialize_message(_BEGINNING + data[len(_BEGINNING) :], kind)
    except Exception:  # rclpy documents no exception types
        return None


def _deliver(found: Packet) -> None:
    mailbox = Mailbox(_MOST_BYTES, tensors=5)
    for _ in range(2):
        mailbox.deliver(found)
    mailbox.forget_before(found.frame)
