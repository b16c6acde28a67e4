# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Raw values of thermal and depth cameras become the grey levels that were asked for, by whatever way they come."""

import resource
import struct

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from cacheinf_ros.errors import ConfigError, MessageError, SourceError
from cacheinf_ros.sources import ValueRange, decode_compressed, decode_image, open_source
from cacheinf_ros.sources.value_range import parse_range

STORE = get_typestore(Stores.ROS2_JAZZY)
INTEGERS, FLOATS = ["<u2", ">u2", "<i2", ">i2"], ["<f4", ">f4", "<f8", ">f8"]
ENCODINGS = {"u2": "mono16", "i2": "16SC1", "f4": "32FC1", "f8": "64FC1"}
THERMAL = ValueRange(7000, 9000)
RAW = np.array([[0, 6999, 7000, 7008], [8000, 8992, 9000, 65535]], np.uint16)
LEVELS = np.array([[0, 0, 0, 1], [128, 254, 255, 255]], np.uint8)  # 127.5 is rounded to the even level
EDGES = st.floats(-40_000, 80_000, width=32)
RANGES = st.tuples(EDGES, EDGES).filter(lambda ends: abs(ends[1] - ends[0]) > 1e-3).map(lambda ends: ValueRange(*ends))
KEPT = np.dstack([RAW >> 8] * 3)


def depth_file(kind: str, pixels: np.ndarray, scale: float = 0.0, offset: float = 0.0) -> tuple[bytes, str]:
    """Return an image as compressed_depth_image_transport sends it, and its format."""
    png = cv2.imencode(".png", pixels)[1].tobytes()
    return struct.pack("<iff", 0, scale, offset) + png, f"{kind}; compressedDepth png"


@given(RANGES, st.sampled_from(INTEGERS + FLOATS), st.integers(0, 2**32 - 1))
def test_levels_are_in_proportion(value_range, kind, seed):
    ends = (0, 65_536) if "u" in kind else (-32_768, 32_768)
    raw = np.random.default_rng(seed).integers(*ends, (3, 5)).astype(kind)
    levels = value_range.to_8_bits(raw)
    assert levels.dtype == np.uint8 and levels.flags.c_contiguous and levels.shape == raw.shape
    shares = (raw.astype(np.float64) - value_range.black) / (value_range.white - value_range.black)
    expected = np.clip(255 * shares, 0, 255)
    assert np.abs(levels - expected).max() <= 0.5 + 0.01  # float32 has its own rounding


def test_levels_by_hand():
    np.testing.assert_array_equal(THERMAL.to_8_bits(RAW), LEVELS)
    np.testing.assert_array_equal(ValueRange(9000, 7000).to_8_bits(RAW)[0], [255, 255, 255, 254])


def test_what_is_not_a_number_counts_as_nothing():
    metres = np.array([np.nan, np.inf, -np.inf, 0, 2.5, 5], np.float32)
    np.testing.assert_array_equal(ValueRange(0, 5).to_8_bits(metres), [0, 255, 0, 0, 128, 255])
    np.testing.assert_array_equal(ValueRange(5, 0).to_8_bits(metres), [255, 0, 255, 255, 128, 0])


def test_the_values_given_are_not_changed():
    metres = np.array([1.0, 2.0], np.float32)
    ValueRange(0, 5).to_8_bits(metres)
    assert metres.tolist() == [1.0, 2.0]


@given(RANGES)
def test_a_range_is_read_as_it_is_written(value_range):
    assert parse_range(str(value_range)) == value_range


def test_a_range_is_written_as_people_write_it():
    assert [str(ValueRange(*ends)) for ends in ((7000, 9000.0), (0.3, 5), (1234567, -1))] == [
        "7000..9000", "0.3..5", "1234567..-1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "7000", "7000..", "..9000", "a..b", "1..nan", "-inf..3", "5..5", "1..2..3", "0..1e-320", "0..1e10"]
)
def test_what_is_no_range_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match=r"give what becomes black and what becomes white, such as 7000\.\.9000"):
        parse_range(text)


@given(RANGES, st.lists(st.floats(width=32), min_size=1, max_size=9))
@pytest.mark.filterwarnings("error")
def test_any_number_becomes_a_level_without_a_warning(value_range, numbers):
    assert value_range.to_8_bits(np.array(numbers, np.float32)).dtype == np.uint8


@pytest.mark.parametrize("kind", INTEGERS + FLOATS)
def test_a_message_of_numbers_is_a_picture(kind):
    raw = np.minimum(RAW, 32_767).astype(kind)
    step = raw.shape[1] * raw.itemsize + 3
    data = b"".join(row.tobytes() + b"pad" for row in raw)
    decoded = decode_image(ENCODINGS[kind[1:]], *raw.shape, step, data, kind.startswith(">"), THERMAL)
    np.testing.assert_array_equal(decoded, np.dstack([LEVELS] * 3))


def test_colour_of_16_bits_keeps_the_upper_byte_either_way():
    pixels = np.dstack([RAW, RAW[::-1], RAW]).astype("<u2")
    np.testing.assert_array_equal(decode_image("bgr16", 2, 4, 24, pixels.tobytes(), value_range=THERMAL), pixels >> 8)
    png = cv2.imencode(".png", pixels)[1].tobytes()
    np.testing.assert_array_equal(decode_compressed(png, "bgr16; png compressed bgr16", THERMAL), pixels >> 8)


@pytest.mark.parametrize("value_range", [None, ValueRange(0, 4095)])
def test_both_transports_of_a_mosaic_of_12_bits_give_the_same(value_range):
    mosaic = np.random.default_rng(0).integers(0, 4096, (6, 8)).astype("<u2")
    raw = decode_image("bayer_rggb16", 6, 8, 16, mosaic.tobytes(), value_range=value_range)
    png = cv2.imencode(".png", mosaic)[1].tobytes()
    np.testing.assert_array_equal(decode_compressed(png, "bayer_rggb16; png compressed ", value_range), raw)
    assert (raw.max() > 200) == (value_range is not None)


def test_pixels_of_8_bits_stay_as_they_are():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    png = cv2.imencode(".png", grey)[1].tobytes()
    for decoded in (
        decode_image("mono8", 3, 4, 4, grey.tobytes(), value_range=THERMAL),
        decode_compressed(png, "mono8; png compressed ", THERMAL),
    ):
        np.testing.assert_array_equal(decoded, np.dstack([grey] * 3))


@pytest.mark.parametrize("description", ["mono16; png compressed ", "16UC1; png compressed ", "png"])
def test_a_compressed_message_of_numbers_is_a_picture(description):
    png = cv2.imencode(".png", RAW)[1].tobytes()
    np.testing.assert_array_equal(decode_compressed(png, description, THERMAL), np.dstack([LEVELS] * 3))


@pytest.mark.parametrize("encoding", ["mono16", "16UC1", "bayer_rggb16"])
def test_a_file_of_8_bits_in_place_of_numbers_is_an_error(encoding):
    """OpenCV makes a JPEG of 16 bits by cutting off all values at 255."""
    data = cv2.imencode(".jpg", np.full((8, 8), 255, np.uint8))[1].tobytes()
    with pytest.raises(MessageError, match=r"its file has 8 bits\. Choose png as the format of image_transport"):
        decode_compressed(data, f"{encoding}; jpeg compressed ", THERMAL)


def test_compressed_distances_are_a_picture():
    """Floats are sent as scale / metres + offset, rounded; 0 where no distance is known."""
    data, description = depth_file("16UC1", RAW)
    np.testing.assert_array_equal(decode_compressed(data, description, THERMAL), np.dstack([LEVELS] * 3))
    metres = np.array([[1.0, 2.0], [4.0, 0.0]])
    with np.errstate(divide="ignore"):
        sent = np.where(metres > 0, 10_100 / metres - 1009, 0).round().astype(np.uint16)
    data, description = depth_file("32FC1", sent, 10_100, -1009)
    near_is_bright = decode_compressed(data, description, ValueRange(5, 0))
    np.testing.assert_array_equal(near_is_bright[:, :, 0], [[204, 153], [51, 255]])


JPEG = cv2.imencode(".jpg", RAW.astype(np.uint8))[1].tobytes()


@pytest.mark.parametrize("data", [b"", b"short", bytes(12), bytes(12) + b"not a picture", bytes(12) + JPEG])
@pytest.mark.parametrize("description", ["32FC1; compressedDepth png", "16UC1; compressedDepth rvl"])
def test_distances_that_are_no_file_are_refused(data, description):
    with pytest.raises(MessageError, match="cannot be decoded; choose png in compressed_depth_image_transport"):
        decode_compressed(data, description, THERMAL)


def test_the_largest_image_of_distances_takes_no_more_than_the_largest_picture():
    """A PNG of 33 kB; by floats for each pixel it took 600 MB."""
    side = 4096
    data, description = depth_file("32FC1", np.zeros((2 * side, side), np.uint16), 10_100, -1009)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert decode_compressed(data, description, THERMAL).shape == (2 * side, side, 3)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 288_000  # kB


@pytest.mark.parametrize("scale", [0.0, np.nan, np.inf, 1e38])
def test_a_header_of_distances_may_say_anything(scale):
    data, description = depth_file("32FC1", RAW, scale, scale)
    assert decode_compressed(data, description, THERMAL).shape == (2, 4, 3)


@given(st.binary(max_size=100), st.sampled_from(["32FC1; compressedDepth png", "16UC1; compressedDepth", "mono16"]))
def test_any_bytes_give_a_picture_or_a_message_error(data, description):
    for start in (b"", bytes(12) + b"\x89PNG\r\n\x1a\n"):
        try:
            assert decode_compressed(start + data, description, THERMAL).ndim == 3
        except MessageError as error:
            assert str(error)


def test_numbers_without_a_range_are_refused_with_the_remedy():
    remedy = r"image_values: \[0\.3, 5\.0\] for nodes, \?values=0\.3\.\.5"
    with pytest.raises(MessageError, match=remedy):
        decode_image("32FC1", 1, 1, 4, bytes(4))
    with pytest.raises(MessageError, match=remedy):
        decode_compressed(*depth_file("16UC1", RAW))
    for value_range in (None, THERMAL):
        with pytest.raises(MessageError, match="or take its raw or compressedDepth topic, with image_values"):
            decode_compressed(b"", "32FC1; tiff compressed ", value_range)


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_a_folder_of_numbers_is_a_source(tmp_path, suffix):
    cv2.imwrite(str(tmp_path / f"0{suffix}"), RAW)
    (frame,) = open_source(f"{tmp_path}?values=7000..9000")
    np.testing.assert_array_equal(frame.image, np.dstack([LEVELS] * 3))
    (frame,) = open_source(str(tmp_path))
    np.testing.assert_array_equal(frame.image, KEPT)


def test_a_folder_of_other_pictures_stays_what_it_is(tmp_path):
    colour = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "0.png"), colour)
    cv2.imwrite(str(tmp_path / "1.png"), colour.astype(np.uint16) * 257)
    cv2.imwrite(str(tmp_path / "2.png"), colour[:, :, 0])
    first, second, third = open_source(f"{tmp_path}?values=7000..9000")
    np.testing.assert_array_equal(first.image, colour)
    np.testing.assert_array_equal(second.image, colour)
    np.testing.assert_array_equal(third.image, np.dstack([colour[:, :, 0]] * 3))


def test_a_folder_of_floats_is_a_source(tmp_path):
    cv2.imwrite(str(tmp_path / "0.tiff"), RAW.astype(np.float32))
    (frame,) = open_source(f"{tmp_path}?values=7000..9000")
    np.testing.assert_array_equal(frame.image, np.dstack([LEVELS] * 3))


@pytest.mark.parametrize("topic", ["", ":/thermal"])
def test_a_bag_of_numbers_is_a_source(tmp_path, topic):
    kind = "sensor_msgs/msg/Image"
    time = STORE.types["builtin_interfaces/msg/Time"](sec=3, nanosec=4)
    header = STORE.types["std_msgs/msg/Header"](stamp=time, frame_id="camera")
    pixels = RAW.reshape(-1).view(np.uint8)
    message = STORE.types[kind](
        header=header, height=2, width=4, encoding="mono16", is_bigendian=0, step=8, data=pixels
    )
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/thermal", kind, typestore=STORE)
        writer.write(connection, 1, STORE.serialize_cdr(message, kind))
    (frame,) = open_source(f"{tmp_path / 'bag'}{topic}?values=7000..9000")
    np.testing.assert_array_equal(frame.image, np.dstack([LEVELS] * 3))


def test_values_where_there_can_be_none_are_an_error(tmp_path):
    video = tmp_path / "clip.avi"
    video.write_bytes(b"video")
    with pytest.raises(SourceError, match="videos have 8 bits"):
        open_source(f"{video}?values=1..2")
    with pytest.raises(SourceError, match=r"values=warm: values 'warm': give what becomes black"):
        open_source(f"{tmp_path}?values=warm")


@pytest.mark.parametrize("end", ["?values=1..2", ":/topic", ":/topic?values=1..2"])
def test_a_path_that_cannot_be_looked_at_is_an_error(end):
    with pytest.raises(SourceError, match="cannot be read"):
        open_source("x" * 5000 + end)


def test_a_folder_may_be_called_like_a_range(tmp_path):
    folder = tmp_path / "a?values=1..2"
    folder.mkdir()
    cv2.imwrite(str(folder / "0.png"), RAW)
    (frame,) = open_source(str(folder))
    np.testing.assert_array_equal(frame.image, KEPT)
