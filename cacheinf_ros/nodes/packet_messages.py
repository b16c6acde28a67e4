# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Conversions between ROS messages and session packets, and the contents of packets with whole frames and results."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
from rclpy.serialization import deserialize_message, serialize_message

from cacheinf_ros.errors import MOST_CHARACTERS, MessageError
from cacheinf_ros.mode import Mode
from cacheinf_ros.msg import InferenceResult, SplitPacket
from cacheinf_ros.nodes.conversions import byte_array
from cacheinf_ros.nodes.results import decoded_from, outputs_from
from cacheinf_ros.offload import Packet
from cacheinf_ros.pipeline.frame_result import HELD

_NUMBERS = (
    "reuse_ratio", "active_share", "stage_ms", "class_scores", "box_x", "box_y", "box_width", "box_height",
    "box_scores", "key_point_x", "key_point_y", "key_point_scores", "corner_x", "corner_y",
)  # fmt: skip
_LITTLE_ENDIAN = b"\0\1\0\0"
"""The first bytes of a serialized message.

Where a peer writes something else, Fast CDR 2.3 may read beyond the message: four bytes ended the process.
"""
_LEAST_BYTES = 100  # the size of a result without any text or number: its counts take that
_STAMP = struct.Struct("<q")  # nanoseconds
_MOST: Mapping[str, int] = {
    "stage_names": 64, "output_names": 1000, "output_ranks": 1000, "output_shapes": 10_000, "class_ids": 2**14,
    "box_x": 2**14, "key_point_x": 2**18, "outline_corners": 2**16, "corner_x": 2**20,
}  # fmt: skip
"""The largest number of entries that a result may list, by the field that states how many there are.

Each box becomes a Python object, and more of them are of no use to anybody.
"""
_TEXTS = ("stage_names", "output_names", "class_names", "box_class_names")
_MODES = frozenset({*(mode.value for mode in Mode), HELD})


def packet_message(packet: Packet) -> SplitPacket:
    """Convert a packet of a session between robot and server to a message."""
    return SplitPacket(
        session=packet.session, epoch=packet.epoch, frame=packet.frame, kind=packet.kind, tensor=packet.tensor,
        part=packet.part, parts=packet.parts, checksum=packet.checksum, data=byte_array(packet.data),
    )  # fmt: skip


def packet_from(message: SplitPacket) -> Packet:
    """Convert a message to a packet; the session checks whether the packet is sound."""
    return Packet(
        session=message.session, epoch=message.epoch, frame=message.frame, kind=message.kind, tensor=message.tensor,
        part=message.part, parts=message.parts, checksum=message.checksum, data=bytes(message.data),
    )  # fmt: skip


def whole_frame(stamp_ns: int, picture: bytes) -> bytes:
    """Encode the content of a FRAME packet; ``picture`` is a PNG or JPEG file."""
    return _STAMP.pack(stamp_ns) + picture


def stamp_and_picture(content: bytes) -> tuple[int, bytes]:
    """Split the content of a FRAME packet into its stamp, in nanoseconds, and its picture.

    Raises:
        MessageError: the content is cut off.
    """
    if len(content) < _STAMP.size:
        raise MessageError(f"a frame of {len(content)} bytes is cut off")
    return _STAMP.unpack_from(content)[0], content[_STAMP.size :]


def result_content(message: InferenceResult) -> bytes:
    """Encode the content of a RESULT packet: the serialized message that the robot publishes."""
    return bytes(serialize_message(message))


def result_from(content: bytes) -> InferenceResult:
    """Read a result from the content of a RESULT packet.

    Raises:
        MessageError: the content is no result, contradicts itself, or holds a number that is not finite.
    """
    if len(content) < _LEAST_BYTES:
        raise MessageError(f"a result of {len(content)} bytes is cut off")
    try:
        message = deserialize_message(_LITTLE_ENDIAN + content[len(_LITTLE_ENDIAN) :], InferenceResult)
    except Exception as error:  # rclpy does not document which errors it raises
        raise MessageError(f"a result of {len(content)} bytes cannot be read: {error}") from None
    try:
        is_sound = _is_of_bounded_size(message) and _is_sound(message)
    except (ValueError, TypeError) as error:  # lists of different lengths, or sizes that do not fit the shapes
        raise MessageError(f"a result contradicts itself: {error}") from None
    if not is_sound:
        raise MessageError("a result contradicts itself, or holds what is no finite number")
    return message


def _is_of_bounded_size(message: InferenceResult) -> bool:
    """Tell whether a result has no more entries than any model can have; checked before anything is made of it."""
    texts = [text for name in _TEXTS for text in getattr(message, name)[: max(_MOST.values())]]
    return (
        message.mode in _MODES
        and all(len(getattr(message, name)) <= most for name, most in _MOST.items())
        and all(len(text) <= MOST_CHARACTERS for text in texts)
    )


def _is_sound(message: InferenceResult) -> bool:
    """Tell whether the fields of a result agree with each other; raises ValueError or TypeError where they do not."""
    numbers = [getattr(message, name) for name in _NUMBERS]
    outputs, _ = outputs_from(message), decoded_from(message)
    return (
        not message.error
        and len(message.stage_names) == len(message.stage_ms)
        and min(message.stage_ms, default=0.0) >= 0
        and sum(message.output_sizes) == len(message.data)
        and sum(message.box_key_points) == len(message.key_point_x) == len(message.key_point_y)
        and len(message.key_point_x) == len(message.key_point_scores)
        and sum(message.box_outlines) == len(message.outline_corners)
        and sum(message.outline_corners) == len(message.corner_x)
        and all(bool(np.isfinite(values).all()) for values in (*numbers, *outputs.values()))
    )
