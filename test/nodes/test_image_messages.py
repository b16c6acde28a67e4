# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Images are read from the bytes on the wire, and written to them, as ROS itself does."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from image_messages import image_message
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from cacheinf_ros.errors import MessageError
from cacheinf_ros.nodes.conversions import header_from, image_from, image_size, stamp_ns, time_message
from cacheinf_ros.nodes.image_messages import Arrival, CameraMessages, serialized_image

STAMPS = st.integers(0, (2**31 - 1) * 10**9)
FRAME_IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def picture(height: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(height * 100 + width).integers(0, 256, (height, width, 3), np.uint8)


@given(STAMPS, FRAME_IDS, st.integers(1, 9), st.integers(1, 9))
def test_what_ros_writes_is_read(stamp: int, frame_id: str, height: int, width: int) -> None:
    header = Header(stamp=time_message(stamp), frame_id=frame_id)
    image = picture(height, width)
    read = CameraMessages(Image).read(serialize_message(image_message(header, image)))
    assert header_from(read.header) == header and header_from(header) is header
    assert stamp_ns(read.header) == stamp
    arrival = Arrival(read)
    assert arrival.header == header and arrival.stamp_ns == stamp and arrival.age_ms >= 0
    assert image_size(read) == (height, width)
    assert np.array_equal(image_from(read), image)


@given(STAMPS, FRAME_IDS, st.integers(1, 9), st.integers(1, 9))
def test_what_is_written_ros_reads(stamp: int, frame_id: str, height: int, width: int) -> None:
    header = Header(stamp=time_message(stamp), frame_id=frame_id)
    image = picture(height, width)
    assert deserialize_message(serialized_image(header, image), Image) == image_message(header, image)


def test_the_pixels_are_not_copied() -> None:
    serialized = serialize_message(image_message(Header(), picture(4, 4)))
    pixels = image_from(CameraMessages(Image).read(serialized))
    assert np.shares_memory(pixels, np.frombuffer(serialized, np.uint8))


@given(st.data())
def test_bytes_that_are_no_image_are_refused_or_read(data: st.DataObject) -> None:
    """Any bytes give a clear error, or a message whose picture is refused or decoded later."""
    good = serialize_message(image_message(Header(frame_id="camera"), picture(3, 5)))
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 8))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    bad = bad[: data.draw(st.integers(0, len(bad)))]
    for message_type in (Image, CompressedImage):
        try:
            image_from(CameraMessages(message_type).read(bytes(bad)))
        except MessageError as error:
            assert str(error)
