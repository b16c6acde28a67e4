# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Clouds of points as a lidar's driver publishes them, and bags of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_JAZZY)
CLOUD, IMAGE = "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/Image"
GRID = "4x3x2,0..4,-1..2,0..2"
POINTS = np.array([[0.5, -0.5, 0.5], [3.5, 1.5, 1.5]])
KINDS = {7: "f4", 8: "f8"}


def header() -> Any:
    time = STORE.types["builtin_interfaces/msg/Time"](sec=3, nanosec=4)
    return STORE.types["std_msgs/msg/Header"](stamp=time, frame_id="lidar")


def cloud(
    points: NDArray[np.float64],
    *,
    kind: int = 7,
    is_bigendian: bool = False,
    padding: int = 0,
    rows: int = 1,
    **changed: Any,
) -> Any:
    """Return a message whose points have an intensity before x, y and z, and padding behind points and rows."""
    number = np.dtype(f"{'>' if is_bigendian else '<'}{KINDS[kind]}")
    offsets = [4 + number.itemsize * axis for axis in range(3)]
    layout = np.dtype(
        {
            "names": "xyz",
            "formats": [number] * 3,
            "offsets": offsets,
            "itemsize": offsets[-1] + number.itemsize + padding,
        }
    )
    data = np.zeros((rows, len(points) // rows), layout)
    for axis, values in zip("xyz", points.T, strict=True):
        data[axis] = values.reshape(data.shape)
    raw = np.zeros((rows, data.shape[1] * layout.itemsize + padding), np.uint8)
    raw[:, : raw.shape[1] - padding] = data.view(np.uint8).reshape(rows, -1)
    field = STORE.types["sensor_msgs/msg/PointField"]
    fields = [field(name="intensity", offset=0, datatype=7, count=1)]
    fields += [field(name=axis, offset=at, datatype=kind, count=1) for axis, at in zip("xyz", offsets, strict=True)]
    said = {
        "header": header(),
        "height": rows,
        "width": data.shape[1],
        "fields": fields,
        "is_bigendian": is_bigendian,
        "point_step": layout.itemsize,
        "row_step": raw.shape[1],
        "data": raw.ravel(),
        "is_dense": True,
    }
    return STORE.types[CLOUD](**{**said, **changed})


def bag(path: Path, **topics: Any) -> Path:
    """Write a bag with a message of each topic."""
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for name, message in topics.items():
            kind = message.__msgtype__
            connection = writer.add_connection(f"/{name}", kind, typestore=STORE)
            writer.write(connection, 10**15, STORE.serialize_cdr(message, kind))
    return path


def image() -> Any:
    return STORE.types[IMAGE](
        header=header(), height=1, width=1, encoding="mono8", is_bigendian=0, step=1, data=np.zeros(1, np.uint8)
    )
