# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Points are read from messages of any layout, and from bags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_clouds import CLOUD, GRID, KINDS, POINTS, STORE, bag, cloud, image
from rosbags.rosbag2 import StoragePlugin, Writer

from cacheinf_ros.errors import MessageError, SourceError
from cacheinf_ros.sources import open_source, parse_voxel_grid, place_of, points_of, value_range_of, voxel_grid_of


@given(
    count=st.integers(0, 6),
    rows=st.integers(1, 3),
    kind=st.sampled_from(sorted(KINDS)),
    is_bigendian=st.booleans(),
    padding=st.integers(0, 5),
    seed=st.integers(0, 2**31),
)
def test_points_are_read_whatever_their_layout(
    count: int, rows: int, kind: int, is_bigendian: bool, padding: int, seed: int
) -> None:
    points = np.random.default_rng(seed).normal(size=(count * rows, 3)).astype(KINDS[kind]).astype(np.float64)
    message = cloud(points, kind=kind, is_bigendian=is_bigendian, padding=padding, rows=rows)
    found = points_of(STORE.deserialize_cdr(STORE.serialize_cdr(message, CLOUD), CLOUD))
    np.testing.assert_array_equal(found.T, points)
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fields": []}, "the points of a cloud have no x"),
        ({"data": np.zeros(3, np.uint8)}, "a cloud of 1x2 points of 16 bytes has 3 bytes in rows of 32: too few"),
        ({"height": 2, "row_step": 8}, "in rows of 8: too few"),
        ({"point_step": 0}, "coordinate x at byte 4 is not within points of 0"),
        ({"point_step": 2**31}, "is not within points of 2147483648 bytes, of 1048576 at most"),
        ({"point_step": 14}, "coordinate z at byte 12 is not within points of 14"),
    ],
)
def test_a_message_that_contradicts_itself_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(MessageError, match=message):
        points_of(cloud(POINTS, **changed))


@pytest.mark.parametrize(
    ("name", "value", "said"), [("datatype", 2, "is of type 2: publish it as FLOAT32"), ("count", 3, "has 3 values")]
)
def test_coordinates_that_are_no_floats_are_refused(name: str, value: int, said: str) -> None:
    message = cloud(POINTS)
    setattr(message.fields[2], name, value)
    with pytest.raises(MessageError, match=f"coordinate y of a cloud's points {said}"):
        points_of(message)


def test_what_publishers_leave_out_is_not_missed() -> None:
    """A row's length where there is one row, the padding behind the last one, a count of 1, fields of no points."""
    np.testing.assert_array_equal(points_of(cloud(POINTS, row_step=0)).T, POINTS)
    padded = cloud(np.tile(POINTS, (2, 1)), rows=2, padding=3)
    padded.data = padded.data[:-3]
    np.testing.assert_array_equal(points_of(padded).T, np.tile(POINTS, (2, 1)))
    uncounted = cloud(POINTS)
    for field in uncounted.fields:
        field.count = 0
    np.testing.assert_array_equal(points_of(uncounted).T, POINTS)
    assert points_of(cloud(POINTS, width=0, fields=[], point_step=0)).shape == (3, 0)


def test_clouds_of_a_bag_are_frames(tmp_path: Path) -> None:
    path = bag(tmp_path / "drive", points=cloud(POINTS), camera=image())
    for reference in (f"{path}?voxels={GRID}", f"{path}:/points?voxels={GRID}"):
        source = open_source(reference)
        (frame,) = source
        np.testing.assert_array_equal(frame.image, parse_voxel_grid(GRID).frame(POINTS.T))
        assert source.name == "drive:/points"
    assert place_of(f"{path}:/points?voxels={GRID}") == f"{path}:/points"
    assert voxel_grid_of(f"{path}?voxels={GRID}") == parse_voxel_grid(GRID)
    assert voxel_grid_of(str(path)) is None is value_range_of(f"{path}?voxels={GRID}")


def test_a_bag_is_asked_for_what_it_has(tmp_path: Path) -> None:
    path, clouds = (
        bag(tmp_path / "both", points=cloud(POINTS), camera=image()),
        bag(tmp_path / "one", lidar=cloud(POINTS)),
    )
    with pytest.raises(SourceError, match=r"/camera has images: leave '\?voxels=' out"):
        open_source(f"{path}:/camera?voxels={GRID}")
    for reference, topic in ((f"{path}:/points", "/points"), (str(clouds), "/lidar")):
        with pytest.raises(SourceError, match=rf"{topic} has clouds of points: say which cells .*'\?voxels=256x"):
            open_source(reference)
    with pytest.raises(SourceError, match="no point cloud topic /radar; choose from /points"):
        open_source(f"{path}:/radar?voxels={GRID}")
    with pytest.raises(SourceError, match="give cells along x, y and z"):
        open_source(f"{path}?voxels=3")
    with pytest.raises(SourceError, match=r"for images and .* for clouds of points; leave one out"):
        open_source(f"{path}?voxels={GRID}?values=0..5")
    with pytest.raises(SourceError, match="clouds of points are shown alone"):
        open_source(f"{path}?voxels={GRID} + {path}:/camera")
    with pytest.raises(SourceError, match="only bags have clouds of points"):
        open_source(f"{tmp_path}?voxels={GRID}")


def test_a_cloud_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = bag(tmp_path / "bad", points=cloud(POINTS, fields=[]))
    with pytest.raises(SourceError, match="bad:/points, message 0: the points of a cloud have no x"):
        list(open_source(f"{path}?voxels={GRID}"))


def test_messages_of_another_type_on_the_topic_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "mixed"
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for number, message in enumerate((cloud(POINTS), image())):
            connection = writer.add_connection("/lidar", message.__msgtype__, typestore=STORE)
            writer.write(connection, 10**15 + number, STORE.serialize_cdr(message, message.__msgtype__))
    (frame,) = open_source(f"{path}?voxels={GRID}")
    np.testing.assert_array_equal(frame.image, parse_voxel_grid(GRID).frame(POINTS.T))
