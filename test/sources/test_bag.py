# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bags of either storage format, written with rosbags, are read back."""

import cv2
import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import open_source

STORE = get_typestore(Stores.ROS2_JAZZY)
STORAGES = pytest.mark.parametrize("storage", list(StoragePlugin), ids=lambda plugin: plugin.name)
RAW, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
BGR = np.random.default_rng(1).integers(0, 256, (6, 10, 3), np.uint8)
GREY = BGR[:, :, 0]


def header():
    time = STORE.types["builtin_interfaces/msg/Time"](sec=3, nanosec=4)
    return STORE.types["std_msgs/msg/Header"](stamp=time, frame_id="camera")


def raw_image(encoding, pixels, is_bigendian=0):
    rows = np.ascontiguousarray(pixels).reshape(pixels.shape[0], -1).view(np.uint8)
    return STORE.types[RAW](
        header=header(),
        height=pixels.shape[0],
        width=pixels.shape[1],
        encoding=encoding,
        is_bigendian=is_bigendian,
        step=rows.shape[1],
        data=rows.ravel(),
    )


def compressed_image(kind, pixels):
    data = cv2.imencode(f".{kind}", pixels)[1].ravel()
    return STORE.types[COMPRESSED](header=header(), format=kind, data=data)


def write_bag(path, storage, topics, period_ns=100_000_000):
    """Write a bag with one message of each topic per period; ``topics`` maps names to messages, or None: no message."""
    with Writer(path, version=9, storage_plugin=storage) as writer:
        for name, messages in topics.items():
            kind = next(filter(None, messages)).__msgtype__
            connection = writer.add_connection(name, kind, typestore=STORE)
            for index, message in enumerate(messages):
                if message is not None:
                    writer.write(connection, 10**15 + index * period_ns, STORE.serialize_cdr(message, kind))
    return path


CASES = {
    "bgr8": (raw_image("bgr8", BGR), BGR),
    "rgb8": (raw_image("rgb8", BGR[:, :, ::-1]), BGR),
    "bgra8": (raw_image("bgra8", np.dstack([BGR, GREY])), BGR),
    "rgba8": (raw_image("rgba8", np.dstack([BGR[:, :, ::-1], GREY])), BGR),
    "mono8": (raw_image("mono8", GREY), np.dstack([GREY] * 3)),
    "mono16": (raw_image("mono16", GREY.astype("<u2") * 256 + 7), np.dstack([GREY] * 3)),
    "mono16_big": (
        raw_image("mono16", (GREY.astype("<u2") * 256 + 7).astype(">u2"), is_bigendian=1),
        np.dstack([GREY] * 3),
    ),
    "png": (compressed_image("png", BGR), BGR),
}


@STORAGES
@pytest.mark.parametrize("case", CASES)
def test_round_trip(tmp_path, storage, case):
    message, expected = CASES[case]
    source = open_source(str(write_bag(tmp_path / "bag", storage, {"/camera/image": [message] * 3})))
    frames = list(source)
    assert (source.name, source.length, len(frames)) == ("bag:/camera/image", 3, 3)
    assert source.fps == pytest.approx(10)
    assert [(frame.index, frame.stamp_ns) for frame in frames] == [(i, i * 100_000_000) for i in range(3)]
    for frame in frames:
        np.testing.assert_array_equal(frame.image, expected)


@STORAGES
def test_jpeg(tmp_path, storage):
    smooth = np.full((16, 16, 3), (30, 90, 200), np.uint8)
    bag = write_bag(tmp_path / "bag", storage, {"/image/compressed": [compressed_image("jpeg", smooth)]})
    (frame,) = open_source(str(bag))
    assert np.abs(frame.image.astype(int) - smooth).max() <= 3


def test_a_single_mcap_file_is_a_bag_too(tmp_path):
    bag = write_bag(tmp_path / "bag", StoragePlugin.MCAP, {"/image": [raw_image("bgr8", BGR)] * 2})
    (file,) = bag.glob("*.mcap")
    assert len(list(open_source(str(file)))) == 2


@STORAGES
def test_choice_of_topic(tmp_path, storage):
    other = STORE.types["std_msgs/msg/String"](data="hello")
    topics = {"/left": [raw_image("bgr8", BGR)], "/right": [raw_image("mono8", GREY)] * 2, "/chatter": [other]}
    bag = write_bag(tmp_path / "bag", storage, topics)
    assert len(list(open_source(f"{bag}:/left"))) == 1
    assert len(list(open_source(f"{bag}:/right"))) == 2
    with pytest.raises(SourceError, match=r"several image topics; append one of them.*'/left', '/right'"):
        open_source(str(bag))
    with pytest.raises(SourceError, match="no image topic /chatter; choose from /left, /right"):
        open_source(f"{bag}:/chatter")


@STORAGES
def test_two_topics_are_shown_side_by_side_by_the_time_of_recording(tmp_path, storage):
    """The right camera begins two periods later and misses one picture."""
    left, right = ([raw_image("mono8", np.full_like(GREY, first + i)) for i in range(20)] for first in (0, 100))
    kept = [*range(2, 9), *range(10, 20)]
    topics = {"/left": left, "/right": [message if i in kept else None for i, message in enumerate(right)]}
    bag = write_bag(tmp_path / "bag", storage, topics)
    frames = list(open_source(f"{bag}:/left + {bag}:/right"))
    assert [(frame.image[0, 0, 0], frame.image[0, -1, 0]) for frame in frames] == [(i, 100 + i) for i in kept]
    assert [(frame.index, frame.stamp_ns) for frame in frames] == [(n, i * 100_000_000) for n, i in enumerate(kept)]


@STORAGES
def test_the_only_image_topic_needs_no_choice(tmp_path, storage):
    other = STORE.types["std_msgs/msg/String"](data="hello")
    bag = write_bag(tmp_path / "bag", storage, {"/chatter": [other] * 5, "/image": [raw_image("bgr8", BGR)]})
    assert len(list(open_source(str(bag)))) == 1


@STORAGES
def test_without_images(tmp_path, storage):
    bag = write_bag(tmp_path / "bag", storage, {"/chatter": [STORE.types["std_msgs/msg/String"](data="hello")]})
    with pytest.raises(SourceError, match="no topic with images; it has /chatter"):
        open_source(str(bag))


@STORAGES
def test_size_may_change_in_mid_stream(tmp_path, storage):
    messages = [raw_image("bgr8", BGR), raw_image("bgr8", BGR[:4, :5])]
    bag = write_bag(tmp_path / "bag", storage, {"/image": messages})
    assert [frame.image.shape for frame in open_source(str(bag))] == [(6, 10, 3), (4, 5, 3)]


@STORAGES
def test_a_bad_message_is_named(tmp_path, storage):
    bag = write_bag(tmp_path / "bag", storage, {"/image": [raw_image("bgr8", BGR), raw_image("yuv9", BGR)]})
    frames = iter(open_source(str(bag)))
    next(frames)
    with pytest.raises(SourceError, match="bag:/image, message 1: image encoding 'yuv9' is not supported"):
        next(frames)


@STORAGES
@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.9])
def test_a_damaged_bag_gives_one_clear_error(tmp_path, storage, keep):
    big = raw_image("bgr8", np.random.default_rng(0).integers(0, 256, (100, 100, 3), np.uint8))
    bag = write_bag(tmp_path / "bag", storage, {"/image": [big] * 10})
    (file,) = [path for path in bag.iterdir() if path.suffix in (".mcap", ".db3")]
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(SourceError, match=r"bag: (not a readable bag|the bag is damaged|no topic)"):
        list(open_source(str(bag)))


def test_a_file_that_is_no_bag(tmp_path):
    (tmp_path / "x.mcap").write_bytes(b"rubbish")
    with pytest.raises(SourceError, match=r"x\.mcap: not a readable bag"):
        open_source(str(tmp_path / "x.mcap"))
    with pytest.raises(SourceError, match=r"nowhere: no such file or folder"):
        open_source(f"{tmp_path}/nowhere:/image")


def test_a_bag_that_cannot_be_read_names_the_tool_of_its_kind(tmp_path):
    (tmp_path / "old.bag").write_bytes(b"#ROSBAG V2.0\n")
    with pytest.raises(SourceError, match=r"try `rosbag reindex`"):
        open_source(str(tmp_path / "old.bag"))
    with pytest.raises(SourceError, match="of a folder of ROS 1 bags give one file"):
        open_source(str(tmp_path))
    (tmp_path / "new.mcap").write_bytes(b"cut")
    with pytest.raises(SourceError, match=r"try `ros2 bag reindex`"):
        open_source(str(tmp_path / "new.mcap"))
    (tmp_path / "part_0.db3.zstd").touch()
    with pytest.raises(SourceError, match=f"give {tmp_path}"):
        open_source(str(tmp_path / "part_0.db3.zstd"))
