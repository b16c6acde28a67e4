# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Messages are converted to values and back again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from hypothesis import given
from hypothesis import strategies as st
from image_messages import image_message
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from strategies import cache_maps, textured

from cacheinf_ros.engine import Box, Decoded, KeyPoint, Mode, ScoredClass
from cacheinf_ros.errors import MOST_CHARACTERS, MessageError
from cacheinf_ros.nodes.conversions import (
    cache_map_message,
    compressed_message,
    encode,
    image_from,
    image_size,
    link_from,
    stamp_ns,
    status_message,
    time_message,
)
from cacheinf_ros.nodes.results import decoded_from, outputs_from, result_message, with_decoded
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.health import Level, Status
from cacheinf_ros.pipeline.map_chain import MapUpdate

STAMPS = st.integers(0, 2**31 * 10**9 - 1)


def header(stamp: int = 10**9) -> Header:
    return Header(stamp=time_message(stamp), frame_id="camera")


@given(STAMPS)
def test_a_stamp_survives(stamp: int) -> None:
    assert stamp_ns(header(stamp)) == stamp


@given(cache_maps(), STAMPS, STAMPS, st.data())
def test_a_cache_map_survives(cache_map: Any, stamp: int, reference: int, data: st.DataObject) -> None:
    sequence = data.draw(st.integers(1, 2**32 - 1))
    before = data.draw(st.integers(0, sequence - 1))
    link = MapUpdate(
        session="a",
        sequence=sequence,
        reference_sequence=before,
        stamp_ns=stamp,
        reference_stamp_ns=reference,
        cache_map=cache_map,
        matcher="identity",
    )
    message = cache_map_message(header(stamp), link, (7000.0, 9000.0))
    back = link_from(message)
    with pytest.raises(MessageError, match=r"image_values \[7000\.0, 9000\.0\], here they are \[0\.0, 0\.0\]"):
        link_from(message, (0.0, 0.0))
    assert link_from(message, (7000.0, 9000.0)).sequence == sequence
    grid = "2x2x2, 0..1, 0..1, 0..1, zxy"
    of_points = cache_map_message(header(stamp), link, (0.0, 0.0), grid)
    assert link_from(of_points, (0.0, 0.0), grid).sequence == link_from(of_points).sequence == sequence
    with pytest.raises(MessageError, match=r"voxels '2x2x2, .*', here they are ''; start both nodes with the same"):
        link_from(of_points, (0.0, 0.0))
    assert (back.session, back.sequence, back.reference_sequence) == ("a", sequence, before)
    assert (back.stamp_ns, back.reference_stamp_ns, back.matcher) == (stamp, reference, "identity")
    assert back.cache_map.image_size == cache_map.image_size
    assert np.array_equal(back.cache_map.reusable, cache_map.reusable)
    assert np.array_equal(back.cache_map.motion.matrix, cache_map.motion.matrix)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("height", 0),
        ("width", 2**32 - 1),
        ("block_size", 2**31),
        ("reusable", b""),
        ("motion", np.full(9, np.nan)),
        ("motion", np.zeros(9)),
        ("reference_sequence", 8),
        ("reference_sequence", 7),
    ],
)
def test_a_cache_map_that_contradicts_itself_is_refused(name: str, value: Any) -> None:
    from cacheinf_ros.msg import CacheMap

    message = CacheMap(sequence=7, height=20, width=20, block_size=10, reusable=b"\0", motion=np.eye(3).ravel())
    assert link_from(message).cache_map.reuse_ratio == 0
    setattr(message, name, value)
    with pytest.raises(MessageError, match="cache map 7 of '' is unusable"):
        link_from(message)


@pytest.mark.parametrize(("side", "block_size"), [(2**14, 2**14), (4096, 2)])
def test_a_cache_map_of_more_pixels_or_blocks_than_any_camera_needs_is_refused(side: int, block_size: int) -> None:
    """Dozens of maps are kept, and folding takes time and memory per pixel."""
    from cacheinf_ros.msg import CacheMap

    packed = bytes((side // block_size) ** 2 // 8 + 1)
    message = CacheMap(height=side, width=side, block_size=block_size, reusable=packed, motion=np.eye(3).ravel())
    with pytest.raises(MessageError, match="larger block_size"):
        link_from(message)


def test_texts_of_megabytes_in_a_cache_map_go_no_further() -> None:
    from cacheinf_ros.msg import CacheMap

    huge = "x" * 5_000_000
    message = CacheMap(height=20, width=20, block_size=10, reusable=b"\0", motion=np.eye(3).ravel())
    message.session = message.reason = message.matcher = huge
    link = link_from(message)
    assert len(link.cache_map.reason) == len(link.matcher) == MOST_CHARACTERS
    message.height = 0
    with pytest.raises(MessageError) as caught:
        link_from(message)
    assert len(str(caught.value)) < MOST_CHARACTERS


def test_the_size_that_a_broken_image_claims_is_one_that_a_map_can_have() -> None:
    assert image_size(Image(height=2**32 - 1, width=0)) == (2**14, 1)
    assert image_size(Image(height=2**32 - 1, width=2**32 - 1)) == (1, 1)


def test_images_survive() -> None:
    image = textured(0, 24, 32)
    assert np.array_equal(image_from(image_message(header(), image)), image)
    grey = image_from(image_message(header(), image[:, :, 0]))
    assert np.array_equal(grey[:, :, 2], image[:, :, 0])
    assert np.abs(image_from(compressed_message(header(), image, 95)).astype(int) - image).mean() < 10


def result(**outputs: Any) -> FrameResult:
    nothing = FrameResult.failed("m", Mode.EXACT, "")
    return replace(nothing, engine=replace(nothing.engine, outputs=outputs))


def test_outputs_survive_with_type_and_shape() -> None:
    outputs = {"a": np.arange(6, dtype=np.float32).reshape(1, 2, 3), "b": np.array([7], np.int64), "c": np.uint8(3)[()]}
    outputs["c"] = np.array(3, np.uint8)
    back = outputs_from(result_message(header(), result(**outputs), 1000))
    for name, output in outputs.items():
        assert back[name].dtype == output.dtype
        assert np.array_equal(back[name], output)


def test_outputs_that_are_too_large_are_left_out_and_said_to_be() -> None:
    message = result_message(header(), result(large=np.zeros(100, np.float32), small=np.ones(1, np.float32)), 50)
    assert list(message.output_names) == ["large", "small"]
    assert list(message.output_sizes) == [0, 4]
    assert list(outputs_from(message)) == ["small"]


def test_key_points_and_outlines_survive() -> None:
    boxes = (
        Box(x=1, y=2, width=3, height=4, class_id=1, name="dog", score=0.25, outlines=(((0, 1), (2, 1), (2, 3)),)),
        Box(x=1, y=2, width=3, height=4, class_id=0, name="cat", score=0.5),
        Box(
            x=1, y=2, width=3, height=4, class_id=0, name="cat", score=0.5, key_points=(KeyPoint(1, 2, 0.5),),
            outlines=(((5, 5), (6, 6)), ((7, 7),)),
        ),
    )  # fmt: skip
    decoded = Decoded(boxes=boxes)
    message = result_message(header(), replace(FrameResult.failed("m", Mode.EXACT, ""), decoded=decoded), 0)
    assert list(message.box_outlines) == [1, 0, 2] and list(message.box_key_points) == [0, 0, 1]
    assert decoded_from(message) == decoded
    assert decoded_from(with_decoded(message, Decoded(boxes=boxes[1:2]))) == Decoded(boxes=boxes[1:2])


def test_classes_and_boxes_survive() -> None:
    decoded = Decoded(
        classes=(ScoredClass(id=3, name="cat", score=0.5),),
        boxes=(Box(x=1, y=2, width=3, height=4, class_id=1, name="dog", score=0.25),),
    )
    assert decoded_from(result_message(header(), replace(result(), decoded=decoded), 0)) == decoded


def test_what_no_picture_file_can_hold_is_an_error() -> None:
    with pytest.raises(MessageError, match="cannot be encoded as jpeg"):
        encode("jpeg", np.zeros((1, 70_000, 3), np.uint8), 90)


def test_a_status_is_told_as_it_is() -> None:
    told = status_message("inference", Status(level=Level.WARN, message="slow", values={"frames": "3"}))
    assert (told.level, told.name, told.message, told.hardware_id) == (bytes([Level.WARN]), "inference", "slow", "")
    assert [(value.key, value.value) for value in told.values] == [("frames", "3")]
